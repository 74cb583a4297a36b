create table source (
  id          bigint generated always as identity primary key,
  key         text not null unique,
  name        text not null unique,
  identifier  text not null unique,
  source_type text not null check (source_type in ('google_drive', 'local_file', 'http_index'))
);

create table printing (
  id               bigint generated always as identity primary key,
  identifier       uuid not null unique,
  canonical_id     uuid not null,
  name             text not null,
  normal_name      text not null,
  set_code         text not null,
  collector_number varchar(16) not null,
  artist           text not null default '',
  border_color     text not null default '',
  frame            text not null default '',
  released_at      date,
  illustration_id  uuid,
  unique (set_code, collector_number)
);
create index printing_normal_name on printing (normal_name);

create table card (
  id                      bigint generated always as identity primary key,
  identifier              text not null unique,
  source_id               bigint not null references source,
  name                    text not null,
  file                    text not null,
  dpi                     integer not null default 0,
  card_type               text not null default 'CARD' check (card_type in ('CARD', 'CARDBACK', 'TOKEN')),
  tags                    text[] not null default '{}',
  canonical_card_id       bigint references printing,
  printing_tag_status     text not null default 'unresolved'
                          check (printing_tag_status in ('unresolved', 'resolved', 'no_match')),
  content_phash           bigint,
  md5_checksum            char(32),
  sha256_checksum         char(64)
);
create index card_printing_tag_status on card (printing_tag_status);
create index card_content_phash on card (content_phash);
create index card_md5 on card (md5_checksum);
create index card_sha256 on card (sha256_checksum);
create index card_hashed on card (id) where content_phash is not null;
---- create above / drop below ----
drop table card;
drop table printing;
drop table source;
