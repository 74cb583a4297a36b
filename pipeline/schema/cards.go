package schema

// Which cards may be voted on by a machine: unresolved fronts of a usable size
// without a tag that takes them out of the catalogue of official printings. A
// dpi of 0 means that nobody measured it; the printed block code is readable from
// 100 dpi (text needs 200, which an OCR calculator must ask for itself).
const votable = `c.printing_tag_status = 'unresolved' and c.canonical_card_id is null and c.card_type = 'CARD'
  and not c.dpi between 1 and 99 and not c.tags && array['custom-art', 'non-english']`

// Done, as in the specification: some row's version map contains the current one. It
// asks card by card: an "exists" could be planned as one hash of the whole table.
const extracted = `(select true from image_evidence e
  where e.card_id = c.id and e.content_hash = c.content_phash and e.extractor_versions @> $3 limit 1) is not null`

// judged is the rest of both: what there is to do on each card of the chunk.
const judged = `), judged as materialized (
  select c.*, ` + extracted + ` as extracted,
    (select true from card_printing_tag v where v.card_id = c.id and v.anonymous_id = $4 limit 1) is not null
      or (select true from card_scan_log l where l.card_id = c.id and l.anonymous_id = $4
        and l.skip_reason <> 'no-evidence' limit 1) is not null as decided,
    (select true from image_evidence e where e.card_id = c.id and e.content_hash = c.content_phash limit 1) is not null as stored,
    (select max(e.updated_at) from image_evidence e where e.card_id = c.id and e.content_hash = c.content_phash) as stored_at,
    ` + votable + ` as votable, coalesce(a.attempts >= $5, false) as poison, a.parked_at
  from chunk c left join stage_c_attempt a on a.card_id = c.id and a.content_hash = c.content_phash
)
select id, identifier, file, dpi, coalesce(trim(md5_checksum), '') as md5, content_phash,
  not extracted and not poison as needs_extraction,
  extracted and votable and not decided as needs_decision,
  not extracted and poison and parked_at is null as needs_parking, stored,
  source_id, coalesce(stored_at, 'epoch') as stored_at
from judged order by id`

// Statements that select and describe cards.
const (
	// Select reads the next $2 hashed cards after position $1 and says of each
	// whether Stage C ($3 current versions) or only Stage D ($4 its agent) has work
	// on it, or whether it must be parked after $5 attempts that killed their workers. The keyset and the limit keep its cost independent of
	// the catalogue's size.
	Select = `/* conveyor:select */
with chunk as (
  select * from card where content_phash is not null and id > $1 order by id limit $2
` + judged

	// SelectCards judges the given cards ($1) in the same way, at most $2 of them.
	SelectCards = `/* conveyor:select-cards */
with chunk as (
  select * from card where content_phash is not null and id = any($1) order by id limit $2
` + judged

	// CardsNamed returns the keys of the named cards.
	CardsNamed = `/* conveyor:cards-named */ select id from card where identifier = any($1) order by id`

	// CardsList shows cards behind an identifier ($1) whose name or identifier contains
	// a word ($2, lower case) and whose status is $3, where these are not empty; $4 at most.
	CardsList = `/* conveyor:cards-list */
select c.identifier, c.name, c.card_type, c.printing_tag_status as status, c.content_phash is not null as hashed,
  exists (select from image_evidence e where e.card_id = c.id and e.content_hash = c.content_phash) as extracted,
  coalesce((select string_agg(distinct p.set_code || ' ' || p.collector_number, ', ') from card_printing_tag v
    join printing p on p.id = v.printing_id where v.card_id = c.id), '') as votes,
  coalesce((select l.skip_reason from card_scan_log l where l.card_id = c.id order by l.id desc limit 1), '') as last_skip
from card c
where c.identifier > $1 and ($2 = '' or position($2 in lower(c.name)) > 0 or position($2 in lower(c.identifier)) > 0)
  and ($3 = '' or c.printing_tag_status = $3)
order by c.identifier limit $4`

	// CatalogueEnd returns the last card's key.
	CatalogueEnd = `/* conveyor:catalogue-end */ select coalesce(max(id), 0) from card`

	// SourceID finds a source by its key.
	SourceID = `/* conveyor:source-id */ select id from source where key = $1`

	// ReadOnly makes the server refuse every write of the session.
	ReadOnly = `/* conveyor:read-only */ select set_config('default_transaction_read_only', 'on', false)`

	// Partition returns the cards of the batch whose image (by md5) already got a
	// printing vote in this run, anywhere in the catalogue.
	Partition = `/* conveyor:partition */
select c.id from card c
where c.id = any($1) and c.md5_checksum is not null and exists (
  select from card twin join card_printing_tag v on v.card_id = twin.id
  where twin.md5_checksum = c.md5_checksum and v.run_id = $2 and v.printing_id is not null)
order by c.id`

	// ProbeCards returns $1 hashed cards in the order of their checksums, which is none.
	ProbeCards = `/* conveyor:probe-cards */
select id, content_phash, file, dpi from card where content_phash is not null and md5_checksum is not null
order by md5_checksum limit $1`

	// Lexicon returns those of the given set codes that exist. It looks for one printing of
	// each, not for all.
	Lexicon = `/* conveyor:lexicon */
select distinct code from unnest($1::text[]) u(code) where exists (select from printing where set_code = u.code)`
)

// Statements that write evidence and scan logs.
const (
	// Persist writes one card's evidence ($2: evidence.Evidence as JSON) of run $4, stamped
	// with the card's own hashes, and its scan log by agent $5 with the reasons of $6, and
	// takes the worker's claim back: all or nothing. It returns 0 and wrote nothing when the
	// card's image is not $3 any more. It is not waited for on disk: the commit that
	// completes the batch comes after it in the log, and is.
	Persist = `/* conveyor:persist */ select persist_card($1, $2, $3, $4, $5, $6)`
)
