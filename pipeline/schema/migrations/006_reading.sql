-- What is read of a card's small print, and of the place of its set symbol.
alter table image_evidence
  add column symbol_phash   bigint,
  add column collector_text text,
  add column artist_text    text,
  add column artist_name    text,
  add column artist_anchor  boolean,
  add column legal_text     text,
  add column copyright_year integer,
  add column proxy_marker   boolean;

-- What the reference knows of a printing beyond its slot. Slots may be exchanged by
-- one statement, hence the deferral to its end.
alter table printing
  add column layout             text not null default '',
  add column lang               text not null default '',
  add column art_crop_url       text not null default '',
  add column face_illustrations jsonb not null default '[]';
alter table printing drop constraint printing_set_code_collector_number_key;
alter table printing add constraint printing_slot unique (set_code, collector_number) deferrable initially immediate;
create index printing_illustration on printing (illustration_id) where illustration_id is not null;

create table dfc_pair (
  front_name   text primary key,
  back_name    text not null,
  normal_front text not null,
  normal_back  text not null
);
create index dfc_pair_front on dfc_pair (normal_front);
create index dfc_pair_back on dfc_pair (normal_back);

-- Which vintage of the reference is stored; one row, written when it changes.
create table reference_vintage (
  key         smallint primary key default 1 check (key = 1),
  location    text not null,
  vintage     text not null,
  digest      char(64) not null,
  printings   integer not null,
  imported_at timestamptz not null default now()
);

-- What a file was when it was last looked at, so that an import goes on where it
-- ended; and the files that are no cards, each with its reason.
alter table card add column file_stamp text;
create table catalogue_skip (
  source_id bigint not null references source on delete cascade,
  file      text not null,
  reason    varchar(64) not null,
  detail    text not null default '',
  stamp     text not null default '',
  seen_at   timestamptz not null default now(),
  primary key (source_id, file)
);
---- create above / drop below ----
drop table catalogue_skip;
alter table card drop column file_stamp;
drop table reference_vintage;
drop table dfc_pair;
drop index printing_illustration;
alter table printing drop constraint printing_slot;
alter table printing add constraint printing_set_code_collector_number_key unique (set_code, collector_number);
alter table printing drop column face_illustrations, drop column art_crop_url, drop column lang, drop column layout;
alter table image_evidence drop column proxy_marker, drop column copyright_year, drop column legal_text,
  drop column artist_anchor, drop column artist_name, drop column artist_text, drop column collector_text,
  drop column symbol_phash;
