package schema

const referenceIncoming = "incoming_printing"

// ReferenceTable is the staging table of an import, which only its session sees.
func ReferenceTable() string { return referenceIncoming }

// ReferenceColumns are the columns of the staging table, in order.
func ReferenceColumns() []string {
	return []string{
		"identifier", "canonical_id", "name", "normal_name", "set_code", "collector_number", "artist", "border_color", "frame",
		"released_at", "illustration_id", "layout", "lang", "art_crop_url", "face_illustrations", "front_name", "back_name",
	}
}

// referenceValues are the columns that make two printings the same or not.
const (
	referenceValues = `identifier, canonical_id, name, normal_name, set_code, collector_number, artist, border_color, frame,
  released_at, illustration_id, layout, lang, art_crop_url, face_illustrations`
	referenceOld = `p.identifier, p.canonical_id, p.name, p.normal_name, p.set_code, p.collector_number, p.artist, p.border_color, p.frame,
  p.released_at, p.illustration_id, p.layout, p.lang, p.art_crop_url, p.face_illustrations`
	referenceNew = `t.identifier, t.canonical_id, t.name, t.normal_name, t.set_code, t.collector_number, t.artist, t.border_color, t.frame,
  t.released_at, t.illustration_id, t.layout, t.lang, t.art_crop_url, t.face_illustrations`
)

// Statements of the reference's import.
const (
	// ReferenceStage makes the staging table.
	ReferenceStage = `/* conveyor:reference-stage */
create temp table ` + referenceIncoming + ` (identifier uuid, canonical_id uuid, name text, normal_name text, set_code text,
  collector_number text, artist text, border_color text, frame text, released_at date, illustration_id uuid, layout text,
  lang text, art_crop_url text, face_illustrations jsonb, front_name text, back_name text)`

	// ReferenceAnalyze tells the planner how much was staged.
	ReferenceAnalyze = `/* conveyor:reference-analyze */ analyze ` + referenceIncoming

	// ReferenceLock makes two imports take turns.
	ReferenceLock = `/* conveyor:reference-lock */ lock table reference_vintage in exclusive mode`

	// ReferenceDiff writes the difference, and nothing else. A slot that several
	// objects claim is the English one's, then the one's that is stored already. A
	// stored printing is the same by its identifier, else by its slot when its own
	// identifier is not listed any more: its key, to which votes refer, stays. One that
	// is not listed gives its slot up when it is another's now.
	ReferenceDiff = `/* conveyor:reference-diff */
with once as (
  select distinct on (identifier) * from ` + referenceIncoming + ` order by identifier, set_code, collector_number
), ranked as (
  select i.*, p.id as own, row_number() over (partition by i.set_code, i.collector_number
    order by (i.lang = 'en') desc, (p.id is not null) desc, i.identifier) as rank
  from once i left join printing p on p.identifier = i.identifier
), chosen as materialized (
  select * from ranked where rank = 1
), target as materialized (
  select c.*, coalesce(c.own, held.id) as id from chosen c
  left join printing held on c.own is null and held.set_code = c.set_code and held.collector_number = c.collector_number
    and not exists (select from chosen o where o.identifier = held.identifier)
), retired as (
  update printing p set collector_number = '~' || p.id from chosen c
  where c.set_code = p.set_code and c.collector_number = p.collector_number and c.identifier <> p.identifier
    and not exists (select from target t where t.id = p.id)
  returning 1
), updated as (
  update printing p set (` + referenceValues + `) = row(` + referenceNew + `)
  from target t where p.id = t.id and (` + referenceOld + `) is distinct from (` + referenceNew + `)
  returning 1
), inserted as (
  insert into printing (` + referenceValues + `) select ` + referenceNew + ` from target t where t.id is null returning 1
)
select (select count(*) from chosen) as printings, (select count(*) from inserted) as inserted,
  (select count(*) from updated) as updated, (select count(*) from retired) as retired, 0::bigint as pairs`

	// ReferencePairs returns the names of staged two-faced cards.
	ReferencePairs = `/* conveyor:reference-pairs */
select distinct on (front_name) front_name, back_name from ` + referenceIncoming + `
where front_name is not null and back_name is not null order by front_name, back_name`

	// ReferencePairsStore takes a JSON array of pairs.
	ReferencePairsStore = `/* conveyor:reference-pairs-store */
insert into dfc_pair as old (front_name, back_name, normal_front, normal_back)
select * from jsonb_to_recordset($1) as r(front_name text, back_name text, normal_front text, normal_back text)
on conflict (front_name) do update set back_name = excluded.back_name, normal_front = excluded.normal_front, normal_back = excluded.normal_back
where (old.back_name, old.normal_front, old.normal_back) is distinct from (excluded.back_name, excluded.normal_front, excluded.normal_back)`

	// ReferenceVintage returns what is stored.
	ReferenceVintage = `/* conveyor:reference-vintage */
select location, vintage, digest::text as digest, printings, imported_at from reference_vintage`

	// ReferenceVintageStore writes only what differs.
	ReferenceVintageStore = `/* conveyor:reference-vintage-store */
insert into reference_vintage as old (location, vintage, digest, printings) values ($1, $2, $3, $4)
on conflict (key) do update set location = excluded.location, vintage = excluded.vintage, digest = excluded.digest,
  printings = excluded.printings, imported_at = clock_timestamp()
where (old.location, old.vintage, old.digest, old.printings) is distinct from (excluded.location, excluded.vintage, excluded.digest, excluded.printings)`
)
