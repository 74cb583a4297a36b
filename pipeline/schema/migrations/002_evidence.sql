create table image_evidence (
  id                  bigint generated always as identity primary key,
  card_id             bigint not null references card,
  content_hash        bigint not null,
  extractor_versions  jsonb not null,
  skips               jsonb not null default '[]',
  run_id              varchar(64),
  fetch_ok            boolean,
  fetch_error_class   text,
  fetch_latency_ms    integer,
  fetch_image_format  text,
  width               integer,
  height              integer,
  aspect_ratio        double precision,
  bleed_class         text,
  bleed_diff_mm       double precision,
  layout_class        text,
  crop_boxes          jsonb,
  artbox_phash        bigint,
  truncated           boolean,
  blur_variance       double precision,
  entropy             double precision,
  colour_mean         double precision[],
  colour_stddev       double precision[],
  collector_set_code  text,
  collector_number    text,
  md5_checksum        char(32),
  sha256_checksum     char(64),
  transferred         boolean not null default false,
  transferred_from_card_id bigint,
  created_at          timestamptz not null default now(),
  updated_at          timestamptz not null default now(),
  unique (card_id, content_hash),
  check (transferred = (transferred_from_card_id is not null))
);
create index image_evidence_run on image_evidence (run_id);
create index image_evidence_content on image_evidence (content_hash);
create index image_evidence_md5 on image_evidence (md5_checksum);
create index image_evidence_sha256 on image_evidence (sha256_checksum);

create table card_scan_log (
  id                  bigint generated always as identity primary key,
  card_id             bigint not null references card,
  anonymous_id        varchar(40) not null,
  run_id              varchar(64),
  skip_reason         varchar(64) not null,
  scanned_at          timestamptz not null default now(),
  evidence_types_used jsonb not null default '[]',
  survivor_pks        bigint[] not null default '{}'
);
create index card_scan_log_card on card_scan_log (card_id, anonymous_id);
create index card_scan_log_reason on card_scan_log (anonymous_id, skip_reason);
---- create above / drop below ----
drop table card_scan_log;
drop table image_evidence;
