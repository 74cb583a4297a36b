-- What is done for every card, as functions: the server keeps their plans for as long as a
-- session lives, and to parse and plan these statements takes longer than to run them.

-- A session's worker has a card in hand. Not waited for on disk: what a claim must outlive is
-- the worker, not the server.
create function claim_card(card bigint, run text, name text) returns void language plpgsql as $$
#variable_conflict use_column
begin
  perform set_config('synchronous_commit', 'off', true);
  insert into stage_c_claim (card_id, content_hash, backend_pid, backend_start, run_id, worker)
  select c.id, c.content_phash, a.pid, a.backend_start, claim_card.run, claim_card.name
  from card c, pg_stat_get_activity(pg_backend_pid()) a
  where c.id = claim_card.card and c.content_phash is not null
  on conflict (card_id, backend_pid, backend_start) do update
    set content_hash = excluded.content_hash, claimed_at = clock_timestamp();
end
$$;

-- This session's claim on a card ends, and with it the deaths over a card that a worker survived.
create function unclaim_card(card bigint) returns void language plpgsql as $$
begin
  delete from stage_c_claim k where k.card_id = unclaim_card.card and k.backend_pid = pg_backend_pid();
  delete from stage_c_attempt a where a.card_id = unclaim_card.card;
end
$$;

-- Evidence, scan log and the end of the claim, or nothing (0) when the image is another one now.
create function persist_card(card bigint, evidence jsonb, hash bigint, run text, agent text, reasons text[])
returns integer language plpgsql as $$
#variable_conflict use_column
begin
  perform set_config('synchronous_commit', 'off', true);
  insert into image_evidence as old (card_id, content_hash, md5_checksum, sha256_checksum, run_id,
    extractor_versions, skips, fetch_ok, fetch_error_class, fetch_latency_ms, fetch_image_format,
    width, height, aspect_ratio, bleed_class, bleed_diff_mm, layout_class, crop_boxes, artbox_phash,
    truncated, blur_variance, entropy, colour_mean, colour_stddev, collector_set_code, collector_number,
    symbol_phash, collector_text, artist_text, artist_name, artist_anchor, legal_text, copyright_year, proxy_marker)
  select c.id, c.content_phash, c.md5_checksum, c.sha256_checksum, persist_card.run,
    r.versions, coalesce(r.skips, '[]'), r.fetch_ok, r.fetch_error_class, r.fetch_latency_ms, r.fetch_image_format,
    r.width, r.height, r.aspect_ratio, r.bleed_class, r.bleed_diff_mm, r.layout_class, r.crops, r.artbox_phash,
    r.truncated, r.blur_variance, r.entropy, r.colour_mean, r.colour_stddev, r.set_code, r.collector_number,
    r.symbol_phash, r.collector_text, r.artist_text, r.artist_name, r.artist_anchor, r.legal_text, r.copyright_year, r.proxy_marker
  from card c, jsonb_to_record(persist_card.evidence) as r(
    versions jsonb, skips jsonb, fetch_ok boolean, fetch_error_class text, fetch_latency_ms integer,
    fetch_image_format text, width integer, height integer, aspect_ratio double precision, bleed_class text,
    bleed_diff_mm double precision, layout_class text, crops jsonb, artbox_phash bigint, truncated boolean,
    blur_variance double precision, entropy double precision, colour_mean double precision[],
    colour_stddev double precision[], set_code text, collector_number text, symbol_phash bigint, collector_text text,
    artist_text text, artist_name text, artist_anchor boolean, legal_text text, copyright_year integer, proxy_marker boolean)
  where c.id = persist_card.card and c.content_phash = persist_card.hash
  on conflict (card_id, content_hash) do update set
    md5_checksum = excluded.md5_checksum, sha256_checksum = excluded.sha256_checksum, run_id = excluded.run_id,
    extractor_versions = excluded.extractor_versions, skips = excluded.skips,
    fetch_ok = excluded.fetch_ok, fetch_error_class = excluded.fetch_error_class,
    fetch_latency_ms = excluded.fetch_latency_ms, fetch_image_format = excluded.fetch_image_format,
    width = excluded.width, height = excluded.height, aspect_ratio = excluded.aspect_ratio,
    bleed_class = excluded.bleed_class, bleed_diff_mm = excluded.bleed_diff_mm,
    layout_class = excluded.layout_class, crop_boxes = excluded.crop_boxes, artbox_phash = excluded.artbox_phash,
    truncated = excluded.truncated, blur_variance = excluded.blur_variance, entropy = excluded.entropy,
    colour_mean = excluded.colour_mean, colour_stddev = excluded.colour_stddev,
    collector_set_code = excluded.collector_set_code, collector_number = excluded.collector_number,
    symbol_phash = excluded.symbol_phash, collector_text = excluded.collector_text, artist_text = excluded.artist_text,
    artist_name = excluded.artist_name, artist_anchor = excluded.artist_anchor, legal_text = excluded.legal_text,
    copyright_year = excluded.copyright_year, proxy_marker = excluded.proxy_marker,
    transferred = false, transferred_from_card_id = null, updated_at = clock_timestamp();
  if not found then
    return 0;
  end if;
  insert into card_scan_log (card_id, anonymous_id, run_id, skip_reason)
  select persist_card.card, persist_card.agent, persist_card.run, unnest(persist_card.reasons);
  perform unclaim_card(persist_card.card);
  return 1;
end
$$;
---- create above / drop below ----
drop function persist_card(bigint, jsonb, bigint, text, text, text[]);
drop function unclaim_card(bigint);
drop function claim_card(bigint, text, text);
