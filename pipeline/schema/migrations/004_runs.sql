-- The ledger's own truths are constraints, so that no writer can break them.
create table pilot_run_ledger (
  id             bigint generated always as identity primary key,
  run_id         varchar(64) not null unique,
  data_run_id    varchar(64) not null,
  command        varchar(64) not null,
  dry_run        boolean not null default false,
  status         text not null default 'running' check (status in ('running', 'completed', 'failed')),
  git_sha        text not null default '',
  started_at     timestamptz not null default now(),
  finished_at    timestamptz,
  votes_written  integer not null default 0,
  counters       jsonb not null default '{}',
  failure_reason text generated always as (counters ->> 'failure_reason') stored,
  purged_at      timestamptz,
  constraint running_is_unfinished check ((status = 'running') = (finished_at is null)),
  constraint completed_has_elapsed check (status <> 'completed' or counters ? 'elapsed_s'),
  constraint failed_has_reason check (status <> 'failed' or coalesce(counters ->> 'failure_reason', '') <> '')
);
create index pilot_run_ledger_data_run on pilot_run_ledger (data_run_id);
create index pilot_run_ledger_running on pilot_run_ledger (started_at) where status = 'running';

-- Coming soon: what the envelope, the sweeps and the full-catalogue driver keep.
create table envelope_trip (
  id                bigint generated always as identity primary key,
  trip_id           text not null unique,
  bar               text not null check (bar in ('host_load', 'rss', 'fetch_failure_rate', 'google_lockout')),
  detail            jsonb not null default '{}',
  run_id            varchar(64),
  tripped_at        timestamptz not null default now(),
  acknowledged_at   timestamptz,
  acknowledged_note text,
  constraint acknowledged_with_note check (acknowledged_at is null or coalesce(acknowledged_note, '') <> '')
);
create index envelope_trip_open on envelope_trip (acknowledged_at, tripped_at);

create table stage_e_throttle_counter (
  key               smallint primary key default 1 check (key = 1),
  count             bigint not null default 0,
  last_throttled_at timestamptz
);
insert into stage_e_throttle_counter default values;

create table stage_e_sweep_cursor (
  name       text primary key check (name in ('stage_c', 'stage_d')),
  position   bigint not null default 0,
  wrap_count bigint not null default 0,
  updated_at timestamptz not null default now()
);

create table stage_e_full_catalog_cursor (
  scope            varchar(64) primary key,
  position         bigint not null default 0,
  cards_dispatched bigint not null default 0,
  updated_at       timestamptz not null default now()
);
---- create above / drop below ----
drop table stage_e_full_catalog_cursor;
drop table stage_e_sweep_cursor;
drop table stage_e_throttle_counter;
drop table envelope_trip;
drop table pilot_run_ledger;
