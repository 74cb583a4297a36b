package schema

// current is the evidence i of card c that is of the card's present image.
const current = `i.card_id = c.id and i.content_hash = c.content_phash
    and (i.md5_checksum is null or c.md5_checksum is null or i.md5_checksum = c.md5_checksum)`

// Statements that read what the calculators need, for the cards of a batch.
const (
	// Evidence returns each card's current evidence. due says whether the calculators may
	// decide it in this run ($2), of which $3 names the first; the chips may always.
	Evidence = `/* conveyor:evidence */
select c.id, c.name, e.id is not null as has_evidence,
  coalesce(e.collector_set_code, '') as set_code, coalesce(e.collector_number, '') as number,
  coalesce(e.layout_class, '') as border, coalesce(e.truncated, false) as truncated,
  coalesce(e.artist_name, '') as artist, e.artist_anchor as anchor, e.symbol_phash as symbol,
  coalesce(e.copyright_year, 0) as year, coalesce(e.bleed_class, '') as bleed, e.bleed_diff_mm as bleed_mm,
  ` + votable + `
  and not exists (select from card_printing_tag v where v.card_id = c.id and v.anonymous_id = $3 and v.run_id = $2)
  and not exists (select from card_scan_log l where l.card_id = c.id and l.anonymous_id = $3 and l.run_id = $2
    and l.skip_reason <> 'no-evidence') as due
from card c left join lateral (select * from image_evidence i where ` + current + `) e on true
where c.id = any($1) order by c.id`

	// Candidates returns the printings of the given normalised names; $2 is the part
	// before a double slash. A back's name, or both names together, stand for the front's.
	Candidates = `/* conveyor:candidates */
with wanted as (select distinct name, front from unnest($1::text[], $2::text[]) n(name, front)), meant as (
  select name, name as front from wanted
  union select w.name, d.normal_front from wanted w join dfc_pair d on d.normal_back = w.name
  union select w.name, d.normal_front from wanted w join dfc_pair d on d.normal_front = w.front
    and w.name = d.normal_front || d.normal_back
)
select m.name as normal_name, p.id, p.set_code, p.collector_number as number, p.border_color as border, p.artist, p.frame,
  coalesce(extract(year from p.released_at), 0)::int as year, coalesce(p.illustration_id::text, '') as illustration
from meant m join printing p on p.normal_name = m.front order by p.id`

	// Symbols returns, for the given set codes, the symbol's hash that was seen most
	// often on cards that people settled.
	Symbols = `/* conveyor:symbols */
select lower(p.set_code), mode() within group (order by e.symbol_phash)
from printing p join card c on c.inferred_canonical_card_id = p.id and c.printing_tag_status = 'resolved'
cross join lateral (select i.symbol_phash from image_evidence i where ` + current + `) e
where p.set_code = any($1) and e.symbol_phash is not null group by 1`
)

// Statements about identity groups: the cards that show the same thing.
const (
	// Groups returns the members of the given cards' groups that a person voted in, or of
	// all, as pairs of a group's lowest card and a member. While nobody has voted on
	// anything, it looks no further.
	Groups = `/* conveyor:groups */
select distinct g.root, g.member from (
  select id from unnest($1::bigint[]) u(id)
  where $2 or exists (select from card_printing_tag h where h.source in ('user', 'admin'))) s cross join lateral (
  select min(m.id) over () as root, m.id as member,
    bool_or(exists (select from card_printing_tag h where h.card_id = m.id and h.source in ('user', 'admin'))) over () as human
  from identity_group(s.id) m(id)) g
where g.human or $2 order by 1, 2`

	// GroupVotes returns the votes on the given cards.
	GroupVotes = `/* conveyor:group-votes */
select card_id, coalesce(printing_id, 0), anonymous_id, source, coalesce(run_id, '')
from card_printing_tag where card_id = any($1) order by card_id, id`

	// Settle writes outcomes where they differ, and returns the cards that changed.
	Settle = `/* conveyor:settle */
update card c set printing_tag_status = s.status, inferred_canonical_card_id = nullif(s.printing_id, 0)
from unnest($1::bigint[], $2::text[], $3::bigint[]) s(card_id, status, printing_id)
where c.id = s.card_id
  and (c.printing_tag_status, c.inferred_canonical_card_id) is distinct from (s.status, nullif(s.printing_id, 0))
returning c.id`

	// PropagateTargets returns the next $3 cards after $2 that an image equal to one that
	// run $1 voted on may tell something.
	PropagateTargets = `/* conveyor:propagate-targets */
select c.id from card c where c.id > $2 and ` + votable + ` and exists (
  select from card d join card_printing_tag v on v.card_id = d.id and v.run_id = $1 and v.propagated_from is null
  where (d.md5_checksum = c.md5_checksum or d.content_phash = c.content_phash) and d.id <> c.id and v.printing_id is not null)
order by c.id limit $3`

	// Propagate copies to each card of $2 what run $1 voted on the lowest card of its
	// md5 group, else of its hash group, one vote for each agent. Nothing is copied over
	// a card's own vote, from a group in which the agent names two printings, or onto
	// a card that itself reads as another.
	Propagate = `/* conveyor:propagate */
with offer as (
  select c.id as card_id, v.anonymous_id, v.printing_id, v.source, v.confidence, v.evidence_types_used, v.card_id as donor,
    coalesce(d.md5_checksum = c.md5_checksum, false) as twin
  from card c
  join card d on (d.md5_checksum = c.md5_checksum or d.content_phash = c.content_phash) and d.id <> c.id
  join card_printing_tag v on v.card_id = d.id and v.run_id = $1 and v.propagated_from is null
    and v.printing_id is not null and v.confidence is not null
  left join lateral (select * from image_evidence i where ` + current + `) e on true
  left join image_evidence o on o.card_id = d.id and o.content_hash = d.content_phash
  where c.id = any($2) and ` + votable + `
    and not exists (select from card_printing_tag own where own.card_id = c.id and own.anonymous_id = v.anonymous_id)
    and (d.md5_checksum = c.md5_checksum or lower(d.name) = lower(c.name)
      and e.collector_set_code is not distinct from o.collector_set_code
      and e.collector_number is not distinct from o.collector_number)
), agreed as (
  select card_id, anonymous_id, count(distinct printing_id) > 1 as conflict from offer group by 1, 2
), copied as (
  insert into card_printing_tag (card_id, printing_id, anonymous_id, source, confidence, run_id, evidence_types_used, propagated_from)
  select distinct on (o.card_id, o.anonymous_id) o.card_id, o.printing_id, o.anonymous_id, o.source, o.confidence, $1,
    o.evidence_types_used, o.donor
  from offer o join agreed a using (card_id, anonymous_id) where not a.conflict
  order by o.card_id, o.anonymous_id, o.twin desc, o.donor
  returning 1
)
select (select count(*) from copied), (select count(*) from agreed where conflict)`

	// RunCards returns the next $3 cards after $2 that run $1 voted on.
	RunCards = `/* conveyor:run-cards */
select distinct card_id from card_printing_tag where run_id = $1 and card_id > $2 order by card_id limit $3`
)

// Statements of a person's vote.
const (
	// HumanCard finds a card by its identifier.
	HumanCard = `/* conveyor:human-card */ select id from card where identifier = $1`

	// HumanPrinting finds a printing by its identifier, or by set code and number
	// joined by a slash.
	HumanPrinting = `/* conveyor:human-printing */
select id from printing where identifier::text = lower($1) or lower(set_code || '/' || collector_number) = lower($1)`

	// HumanArchive takes back what a person said about a card.
	HumanArchive = `/* conveyor:human-archive */
with gone as (delete from card_printing_tag where card_id = $1 and anonymous_id = $2 returning *)
insert into archived_card_printing_tag (original_id, card_id, printing_id, is_no_match, anonymous_id,
  source, confidence, run_id, evidence_types_used, superseded_by_run_id)
select id, card_id, printing_id, is_no_match, anonymous_id, source, confidence, run_id, evidence_types_used, $3 from gone`

	// HumanVote stores it; printing 0 stands for no match.
	HumanVote = `/* conveyor:human-vote */
insert into card_printing_tag (card_id, printing_id, is_no_match, anonymous_id, source)
values ($1, nullif($2::bigint, 0), $2::bigint = 0, $3, $4)`
)
