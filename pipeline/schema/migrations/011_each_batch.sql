-- What is done for every batch and takes long to plan, as functions, whose plans the server
-- keeps for as long as a session lives.

-- Each of the cards gets the evidence of a card with the same bytes, when that has the versions,
-- is not older than since and says the same hash; other cards are left alone. Returns the cards
-- that were given some. A donor that cannot be the same image is logged as an anomaly of the run.
create function transfer_evidence(cards bigint[], versions jsonb, run text, since timestamptz)
returns setof bigint language plpgsql as $$
#variable_conflict use_column
begin
  return query
  with offer as (
    select distinct on (c.id) c.id, c.content_phash, c.md5_checksum, c.sha256_checksum, d.id as donor, e.id as evidence,
      case when d.content_phash <> c.content_phash then 'transfer-content-hash-mismatch'
        when d.sha256_checksum <> c.sha256_checksum then 'transfer-sha256-mismatch' end as anomaly
    from card c join card d on d.md5_checksum = c.md5_checksum and d.id <> c.id and d.dpi = c.dpi
    join image_evidence e on e.card_id = d.id and e.content_hash = d.content_phash and e.md5_checksum = c.md5_checksum
      and e.fetch_ok and e.extractor_versions @> transfer_evidence.versions and e.updated_at >= transfer_evidence.since
    where c.id = any(transfer_evidence.cards) and c.content_phash is not null
    order by c.id, anomaly nulls first, e.updated_at desc
  ), logged as (
    insert into card_scan_log (card_id, anonymous_id, run_id, skip_reason)
    select id, 'evidence-transfer-v1', transfer_evidence.run, anomaly from offer where anomaly is not null
  ), renewed as (
    update image_evidence t set (extractor_versions, skips, fetch_ok, fetch_error_class, fetch_latency_ms, fetch_image_format,
    width, height, aspect_ratio, bleed_class, bleed_diff_mm, layout_class, crop_boxes, artbox_phash, truncated, blur_variance,
    entropy, colour_mean, colour_stddev, collector_set_code, collector_number, symbol_phash, collector_text, artist_text,
    artist_name, artist_anchor, legal_text, copyright_year, proxy_marker) = (select extractor_versions, skips, fetch_ok, fetch_error_class, fetch_latency_ms, fetch_image_format,
    width, height, aspect_ratio, bleed_class, bleed_diff_mm, layout_class, crop_boxes, artbox_phash, truncated, blur_variance,
    entropy, colour_mean, colour_stddev, collector_set_code, collector_number, symbol_phash, collector_text, artist_text,
    artist_name, artist_anchor, legal_text, copyright_year, proxy_marker from image_evidence e where e.id = o.evidence),
      md5_checksum = o.md5_checksum, sha256_checksum = o.sha256_checksum, run_id = transfer_evidence.run, transferred = true,
      transferred_from_card_id = o.donor, updated_at = clock_timestamp()
    from offer o where o.anomaly is null and t.card_id = o.id and t.content_hash = o.content_phash
    returning t.card_id
  ), made as (
    insert into image_evidence (card_id, content_hash, md5_checksum, sha256_checksum, run_id, transferred, transferred_from_card_id,
      extractor_versions, skips, fetch_ok, fetch_error_class, fetch_latency_ms, fetch_image_format,
    width, height, aspect_ratio, bleed_class, bleed_diff_mm, layout_class, crop_boxes, artbox_phash, truncated, blur_variance,
    entropy, colour_mean, colour_stddev, collector_set_code, collector_number, symbol_phash, collector_text, artist_text,
    artist_name, artist_anchor, legal_text, copyright_year, proxy_marker)
    select o.id, o.content_phash, o.md5_checksum, o.sha256_checksum, transfer_evidence.run, true, o.donor, e.*
    from offer o cross join lateral (select extractor_versions, skips, fetch_ok, fetch_error_class, fetch_latency_ms, fetch_image_format,
    width, height, aspect_ratio, bleed_class, bleed_diff_mm, layout_class, crop_boxes, artbox_phash, truncated, blur_variance,
    entropy, colour_mean, colour_stddev, collector_set_code, collector_number, symbol_phash, collector_text, artist_text,
    artist_name, artist_anchor, legal_text, copyright_year, proxy_marker from image_evidence i where i.id = o.evidence) e
    where o.anomaly is null on conflict (card_id, content_hash) do nothing
    returning card_id
  )
  select card_id from renewed union select card_id from made;
end
$$;

create or replace function identity_group(seed bigint) returns setof bigint language plpgsql stable rows 2 as $$
begin
  return query
  with recursive member(id) as (
    select seed
    union
    select t.id from member m join card c on c.id = m.id cross join lateral (
      select twin.id from card twin where twin.md5_checksum = c.md5_checksum
      union all
      select same.card_id from image_evidence own
        join image_evidence same on same.artbox_phash = own.artbox_phash and same.card_id <> own.card_id
          and same.layout_class is not distinct from own.layout_class
          and same.collector_set_code is not distinct from own.collector_set_code
          and same.collector_number is not distinct from own.collector_number
        join card other on other.id = same.card_id and other.content_phash = same.content_hash
          and lower(other.name) = lower(c.name) and other.card_type = c.card_type
      where own.card_id = c.id and own.content_hash = c.content_phash and own.artbox_phash is not null
    ) t
  )
  select id from member;
end
$$;
---- create above / drop below ----
create or replace function identity_group(seed bigint) returns setof bigint language sql stable rows 2 as $$
with recursive member(id) as (
  select seed
  union
  select t.id from member m join card c on c.id = m.id cross join lateral (
    select twin.id from card twin where twin.md5_checksum = c.md5_checksum
    union all
    select same.card_id from image_evidence own
      join image_evidence same on same.artbox_phash = own.artbox_phash and same.card_id <> own.card_id
        and same.layout_class is not distinct from own.layout_class
        and same.collector_set_code is not distinct from own.collector_set_code
        and same.collector_number is not distinct from own.collector_number
      join card other on other.id = same.card_id and other.content_phash = same.content_hash
        and lower(other.name) = lower(c.name) and other.card_type = c.card_type
    where own.card_id = c.id and own.content_hash = c.content_phash and own.artbox_phash is not null
  ) t
)
select id from member
$$;
drop function transfer_evidence(bigint[], jsonb, text, timestamptz);
