package schema

// Statements of the vote transaction, in the order in which it sends them.
const (
	// VotesLock makes concurrent dispatches over one card take turns. NO KEY
	// leaves foreign-key checks by others alone; the order prevents deadlock.
	VotesLock = `/* conveyor:votes-lock */
select id from card where id = any($1) order by id for no key update`

	// VotesCurrent returns what agent families ($2, any version) hold on the cards.
	VotesCurrent = `/* conveyor:votes-current */
select v.card_id, f.family, coalesce(v.printing_id, 0) from card_printing_tag v
join unnest($2::text[]) f(family) on v.anonymous_id ~ ('^' || f.family || '-v[0-9]+$')
where v.card_id = any($1) order by v.card_id, v.id`

	// VotesPurge moves to the archive what the families of $2 hold on the cards of $1,
	// pair by pair.
	VotesPurge = `/* conveyor:votes-purge */
with gone as (
  delete from card_printing_tag v using unnest($1::bigint[], $2::text[]) g(card_id, family)
  where v.card_id = g.card_id and v.anonymous_id ~ ('^' || g.family || '-v[0-9]+$') returning v.*
)
insert into archived_card_printing_tag (original_id, card_id, printing_id, is_no_match, anonymous_id,
  source, confidence, run_id, evidence_types_used, superseded_by_run_id)
select id, card_id, printing_id, is_no_match, anonymous_id, source, confidence, run_id, evidence_types_used, $3
from gone`

	// Votes inserts one row per element; printing 0 stands for no match. The evidence
	// that was used is a list of names joined by commas.
	Votes = `/* conveyor:votes */
insert into card_printing_tag (card_id, printing_id, is_no_match, anonymous_id, source, confidence, run_id, evidence_types_used)
select card_id, nullif(printing_id, 0), printing_id = 0, agent, source, confidence, $1, to_jsonb(string_to_array(used, ','))
from unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::float8[], $7::text[])
  as v(card_id, printing_id, agent, source, confidence, used)`

	// VotesIllustrations keeps each agent's newest illustration of a card.
	VotesIllustrations = `/* conveyor:votes-illustrations */
insert into card_illustration_vote as old (card_id, illustration_id, anonymous_id, source, confidence, run_id, evidence_types_used)
select card_id, illustration::uuid, agent, source, confidence, $1, to_jsonb(string_to_array(used, ','))
from unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::float8[], $7::text[])
  as v(card_id, illustration, agent, source, confidence, used)
on conflict (card_id, anonymous_id) do update set illustration_id = excluded.illustration_id,
  confidence = excluded.confidence, run_id = excluded.run_id
where old.illustration_id is distinct from excluded.illustration_id`

	// VotesRejections adds illustrations that a card does not show.
	VotesRejections = `/* conveyor:votes-rejections */
insert into card_illustration_rejection (card_id, illustration_id, anonymous_id, run_id)
select card_id, illustration::uuid, agent, $1
from unnest($2::bigint[], $3::text[], $4::text[]) as v(card_id, illustration, agent)
on conflict do nothing`

	// VotesTags adds attributes. An agent speaks about a card's attributes once.
	VotesTags = `/* conveyor:votes-tags */
insert into card_tag_vote (card_id, tag, polarity, anonymous_id, source, confidence, run_id, evidence_types_used)
select card_id, tag, polarity, agent, source, confidence, $1, to_jsonb(string_to_array(used, ','))
from unnest($2::bigint[], $3::text[], $4::smallint[], $5::text[], $6::text[], $7::float8[], $8::text[])
  as v(card_id, tag, polarity, agent, source, confidence, used)
where not exists (select from card_tag_vote t where t.card_id = v.card_id and t.anonymous_id = v.agent)
on conflict do nothing`

	// VotesSkips writes named skips; survivors are keys joined by commas.
	VotesSkips = `/* conveyor:votes-skips */
insert into card_scan_log (card_id, anonymous_id, run_id, skip_reason, survivor_pks)
select card_id, agent, $1, reason, coalesce((select array_agg(x::bigint) from unnest(string_to_array(survivors, ',')) x), '{}')
from unnest($2::bigint[], $3::text[], $4::text[], $5::text[]) as s(card_id, agent, reason, survivors)`

	// VotesDrain copies to each card the vote that its md5 group's lowest card got
	// in this run, one per agent, and never over a card's own vote.
	VotesDrain = `/* conveyor:votes-drain */
insert into card_printing_tag (card_id, printing_id, anonymous_id, source, confidence, run_id, evidence_types_used, propagated_from)
select distinct on (c.id, v.anonymous_id) c.id, v.printing_id, v.anonymous_id, v.source, v.confidence, $2,
  v.evidence_types_used, v.card_id
from card c
join card twin on twin.md5_checksum = c.md5_checksum and twin.id <> c.id
join card_printing_tag v on v.card_id = twin.id and v.run_id = $2 and v.printing_id is not null and v.confidence is not null
where c.id = any($1) and ` + votable + `
  and not exists (select from card_printing_tag own where own.card_id = c.id and own.anonymous_id = v.anonymous_id)
order by c.id, v.anonymous_id, v.card_id`
)

// Statements of the catalogue's import, each one value-diffing upsert: a row
// that is already equal is not written again.
const (
	// ImportSource returns the source's id, whether new or not.
	ImportSource = `/* conveyor:import-source */
insert into source (key, name, identifier, source_type) values ($1, $2, $3, $4)
on conflict (key) do update set name = excluded.name returning id`

	// ImportPrintings takes a JSON array of printings. What an index does not know
	// (frame, release, illustration) leaves the stored value alone.
	ImportPrintings = `/* conveyor:import-printings */
insert into printing as old (identifier, canonical_id, name, normal_name, set_code, collector_number, artist, border_color,
  frame, released_at, illustration_id)
select * from jsonb_to_recordset($1) as r(identifier uuid, canonical_id uuid, name text, normal_name text,
  set_code text, collector_number text, artist text, border_color text, frame text, released_at date, illustration_id uuid)
on conflict (identifier) do update set canonical_id = excluded.canonical_id, name = excluded.name,
  normal_name = excluded.normal_name, set_code = excluded.set_code, collector_number = excluded.collector_number,
  artist = excluded.artist, border_color = excluded.border_color, frame = coalesce(nullif(excluded.frame, ''), old.frame),
  released_at = coalesce(excluded.released_at, old.released_at),
  illustration_id = coalesce(excluded.illustration_id, old.illustration_id)
where (old.canonical_id, old.name, old.normal_name, old.set_code, old.collector_number, old.artist, old.border_color,
    old.frame, old.released_at, old.illustration_id)
  is distinct from (excluded.canonical_id, excluded.name, excluded.normal_name, excluded.set_code,
    excluded.collector_number, excluded.artist, excluded.border_color, coalesce(nullif(excluded.frame, ''), old.frame),
    coalesce(excluded.released_at, old.released_at), coalesce(excluded.illustration_id, old.illustration_id))`

	// ImportCards takes a JSON array of cards of source $2 and returns the keys of
	// those that it wrote.
	ImportCards = `/* conveyor:import-cards */
insert into card as old (identifier, source_id, name, file, dpi, card_type, content_phash, md5_checksum, sha256_checksum)
select identifier, $2, name, file, dpi, card_type, content_phash, md5, sha256
from jsonb_to_recordset($1) as r(identifier text, name text, file text, dpi integer, card_type text,
  content_phash bigint, md5 char(32), sha256 char(64))
on conflict (identifier) do update set source_id = excluded.source_id, name = excluded.name, file = excluded.file,
  dpi = excluded.dpi, card_type = excluded.card_type, content_phash = excluded.content_phash,
  md5_checksum = excluded.md5_checksum, sha256_checksum = excluded.sha256_checksum
where (old.source_id, old.name, old.file, old.dpi, old.card_type, old.content_phash, old.md5_checksum, old.sha256_checksum)
  is distinct from (excluded.source_id, excluded.name, excluded.file, excluded.dpi, excluded.card_type,
    excluded.content_phash, excluded.md5_checksum, excluded.sha256_checksum)
returning id`
)
