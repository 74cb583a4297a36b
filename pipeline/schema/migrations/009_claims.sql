-- Who has a card in hand. A claim is made before the work that may kill its worker and
-- goes with its end. What stage_c_attempt counts are deaths.
create table stage_c_claim (
  card_id       bigint not null references card on delete cascade,
  content_hash  bigint not null,
  backend_pid   integer not null,
  backend_start timestamptz not null,
  run_id        varchar(64) not null,
  worker        text not null,
  claimed_at    timestamptz not null default clock_timestamp(),
  primary key (card_id, backend_pid, backend_start)
);
---- create above / drop below ----
drop table stage_c_claim;
