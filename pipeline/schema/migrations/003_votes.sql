create table card_printing_tag (
  id                  bigint generated always as identity primary key,
  card_id             bigint not null references card,
  printing_id         bigint references printing,
  is_no_match         boolean not null default false,
  anonymous_id        varchar(40) not null,
  user_id             bigint,
  source              text not null
                      check (source in ('user', 'admin', 'deduction', 'ocr', 'federated', 'implicit')),
  confidence          double precision,
  run_id              varchar(64),
  evidence_types_used jsonb not null default '[]',
  propagated_from     bigint,
  created_at          timestamptz not null default now(),
  constraint printing_xor_no_match check ((printing_id is not null) <> is_no_match)
);
create unique index card_printing_tag_printing on card_printing_tag (card_id, printing_id, anonymous_id)
  where printing_id is not null;
create unique index card_printing_tag_no_match on card_printing_tag (card_id, anonymous_id)
  where is_no_match;
create index card_printing_tag_agent on card_printing_tag (card_id, anonymous_id);
create index card_printing_tag_run on card_printing_tag (run_id);

create table archived_card_printing_tag (
  id                    bigint generated always as identity primary key,
  original_id           bigint not null,
  card_id               bigint not null,
  printing_id           bigint,
  is_no_match           boolean not null,
  anonymous_id          varchar(40) not null,
  source                text not null,
  confidence            double precision,
  run_id                varchar(64),
  evidence_types_used   jsonb not null,
  superseded_by_run_id  varchar(64) not null,
  archived_at           timestamptz not null default now()
);
create index archived_card_printing_tag_card on archived_card_printing_tag (card_id);
---- create above / drop below ----
drop table archived_card_printing_tag;
drop table card_printing_tag;
