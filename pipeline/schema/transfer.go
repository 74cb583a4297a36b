package schema

// measured are the columns of evidence that follow from an image's bytes and its
// resolution, hence are the same for twins.
const measured = `extractor_versions, skips, fetch_ok, fetch_error_class, fetch_latency_ms, fetch_image_format,
  width, height, aspect_ratio, bleed_class, bleed_diff_mm, layout_class, crop_boxes, artbox_phash, truncated, blur_variance,
  entropy, colour_mean, colour_stddev, collector_set_code, collector_number, symbol_phash, collector_text, artist_text,
  artist_name, artist_anchor, legal_text, copyright_year, proxy_marker`

// Transfer gives each card of $1 the evidence of a card with the same bytes, when that
// has the versions of $2, is not older than $4 and says the same hash; other cards are
// left alone. It returns the cards that were given some. A donor that cannot be the same
// image is logged as an anomaly of run $3.
const Transfer = `/* conveyor:transfer */
with offer as (
  select distinct on (c.id) c.id, c.content_phash, c.md5_checksum, c.sha256_checksum, d.id as donor, e.id as evidence,
    case when d.content_phash <> c.content_phash then 'transfer-content-hash-mismatch'
      when d.sha256_checksum <> c.sha256_checksum then 'transfer-sha256-mismatch' end as anomaly
  from card c join card d on d.md5_checksum = c.md5_checksum and d.id <> c.id and d.dpi = c.dpi
  join image_evidence e on e.card_id = d.id and e.content_hash = d.content_phash and e.md5_checksum = c.md5_checksum
    and e.fetch_ok and e.extractor_versions @> $2 and e.updated_at >= $4
  where c.id = any($1) and c.content_phash is not null
  order by c.id, anomaly nulls first, e.updated_at desc
), logged as (
  insert into card_scan_log (card_id, anonymous_id, run_id, skip_reason)
  select id, 'evidence-transfer-v1', $3, anomaly from offer where anomaly is not null
), renewed as (
  update image_evidence t set (` + measured + `) = (select ` + measured + ` from image_evidence e where e.id = o.evidence),
    md5_checksum = o.md5_checksum, sha256_checksum = o.sha256_checksum, run_id = $3, transferred = true,
    transferred_from_card_id = o.donor, updated_at = clock_timestamp()
  from offer o where o.anomaly is null and t.card_id = o.id and t.content_hash = o.content_phash
  returning t.card_id
), made as (
  insert into image_evidence (card_id, content_hash, md5_checksum, sha256_checksum, run_id, transferred, transferred_from_card_id,
    ` + measured + `)
  select o.id, o.content_phash, o.md5_checksum, o.sha256_checksum, $3, true, o.donor, e.*
  from offer o cross join lateral (select ` + measured + ` from image_evidence i where i.id = o.evidence) e
  where o.anomaly is null on conflict (card_id, content_hash) do nothing
  returning card_id
)
select card_id from renewed union select card_id from made`
