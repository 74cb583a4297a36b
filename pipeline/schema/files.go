package schema

// Statements of the import of files that no index describes.
const (
	// FilesKnown returns the stamps under which files $2 of source $1 were last looked
	// at, as cards or as skips.
	FilesKnown = `/* conveyor:files-known */
select file, coalesce(file_stamp, '') as stamp, '' as reason, '' as detail from card where source_id = $1 and file = any($2)
union all
select file, stamp, reason, detail from catalogue_skip where source_id = $1 and file = any($2)`

	// FilesCards takes a JSON array of cards of source $2 with their stamps, and returns the
	// keys of those that it wrote.
	FilesCards = `/* conveyor:files-cards */
insert into card as old (identifier, source_id, name, file, dpi, card_type, content_phash, md5_checksum, sha256_checksum, file_stamp)
select identifier, $2, name, file, dpi, card_type, content_phash, md5, sha256, stamp
from jsonb_to_recordset($1) as r(identifier text, name text, file text, dpi integer, card_type text,
  content_phash bigint, md5 char(32), sha256 char(64), stamp text)
on conflict (identifier) do update set name = excluded.name, dpi = excluded.dpi, card_type = excluded.card_type,
  content_phash = excluded.content_phash, md5_checksum = excluded.md5_checksum, sha256_checksum = excluded.sha256_checksum,
  file_stamp = excluded.file_stamp
where (old.name, old.dpi, old.card_type, old.content_phash, old.md5_checksum, old.sha256_checksum, old.file_stamp)
  is distinct from (excluded.name, excluded.dpi, excluded.card_type, excluded.content_phash, excluded.md5_checksum,
    excluded.sha256_checksum, excluded.file_stamp)
returning id`

	// FilesSkips takes a JSON array of files of source $2 that are no cards.
	FilesSkips = `/* conveyor:files-skips */
insert into catalogue_skip as old (source_id, file, reason, detail, stamp)
select $2, file, reason, left(detail, 500), stamp from jsonb_to_recordset($1) as r(file text, reason text, detail text, stamp text)
on conflict (source_id, file) do update set reason = excluded.reason, detail = excluded.detail, stamp = excluded.stamp,
  seen_at = clock_timestamp()
where (old.reason, old.detail, old.stamp) is distinct from (excluded.reason, excluded.detail, excluded.stamp)`

	// FilesMended forgets the skips of files that are cards now.
	FilesMended = `/* conveyor:files-mended */ delete from catalogue_skip where source_id = $1 and file = any($2)`
)
