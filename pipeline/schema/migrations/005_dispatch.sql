-- Who owns a RUNNING row: the lease is the key of a session advisory lock that the
-- owner's session holds, so the server itself says when the owner is gone.
alter table pilot_run_ledger
  add column owner_host    text not null default '',
  add column owner_pid     integer not null default 0,
  add column owner_started timestamptz,
  add column lease         integer;

-- A card is counted when a worker takes it, before the work that may kill the
-- worker, and forgotten when its evidence is stored.
create table stage_c_attempt (
  card_id      bigint primary key references card on delete cascade,
  content_hash bigint not null,
  attempts     integer not null,
  run_id       varchar(64) not null,
  worker       text not null default '',
  reason       text not null default '',
  attempted_at timestamptz not null default now(),
  parked_at    timestamptz
);

create table shared_cache (
  cache_key text primary key,
  value     text not null,
  expires   timestamptz not null
);

create table card_illustration_vote (
  id                  bigint generated always as identity primary key,
  card_id             bigint not null references card,
  illustration_id     uuid not null,
  anonymous_id        varchar(40) not null,
  source              text not null,
  confidence          double precision,
  run_id              varchar(64),
  evidence_types_used jsonb not null default '[]',
  created_at          timestamptz not null default now(),
  unique (card_id, anonymous_id)
);

create table card_illustration_rejection (
  id              bigint generated always as identity primary key,
  card_id         bigint not null references card,
  illustration_id uuid not null,
  anonymous_id    varchar(40) not null,
  run_id          varchar(64),
  created_at      timestamptz not null default now(),
  unique (card_id, anonymous_id, illustration_id)
);

create table card_tag_vote (
  id                  bigint generated always as identity primary key,
  card_id             bigint not null references card,
  tag                 text not null,
  polarity            smallint not null default 1 check (polarity in (-1, 1)),
  anonymous_id        varchar(40) not null,
  source              text not null,
  confidence          double precision,
  run_id              varchar(64),
  evidence_types_used jsonb not null default '[]',
  created_at          timestamptz not null default now(),
  unique (card_id, tag, anonymous_id)
);
create index card_tag_vote_agent on card_tag_vote (card_id, anonymous_id);

alter table card add column inferred_canonical_card_id bigint references printing;
create index image_evidence_artbox on image_evidence (artbox_phash) where artbox_phash is not null;
create index card_printing_tag_human on card_printing_tag (card_id) where source in ('user', 'admin');
create index printing_artist on printing (lower(artist));
insert into stage_e_sweep_cursor (name) values ('stage_c'), ('stage_d') on conflict do nothing;
---- create above / drop below ----
drop index printing_artist;
drop index card_printing_tag_human;
drop index image_evidence_artbox;
alter table card drop column inferred_canonical_card_id;
drop table card_tag_vote;
drop table card_illustration_rejection;
drop table card_illustration_vote;
drop table shared_cache;
drop table stage_c_attempt;
alter table pilot_run_ledger drop column lease, drop column owner_started, drop column owner_pid, drop column owner_host;
