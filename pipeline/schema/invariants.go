package schema

import "slices"

// Invariant is one promise of the database that a query can check.
type Invariant struct {
	// Name is short and stable; scripts may match it.
	Name string
	// Number is the promise's number in the specification, section 10.
	Number int
	// Promise is the sentence that must hold.
	Promise string
	// SQL returns one row per breach, one text column each.
	SQL string
	// AtRest marks a promise that holds only while no stream runs.
	AtRest bool
}

// Invariants lists the promises that exist so far, in the specification's order.
func Invariants() []Invariant {
	return slices.Concat(dataInvariants(), voteInvariants(), runInvariants(), restInvariants(), envelopeInvariants())
}

func dataInvariants() []Invariant {
	return []Invariant{
		{"evidence-unique", 1, "a card has at most one evidence row per content hash", `/* conveyor:check-evidence-unique */
select format('card %s, hash %s: %s rows', card_id, content_hash, count(*))
from image_evidence group by card_id, content_hash having count(*) > 1`, false},
		{"votes-unique", 2, "a vote names a printing or no match, once per card and agent", `/* conveyor:check-votes-unique */
select format('card %s, agent %s, printing %s: %s rows', card_id, anonymous_id, printing_id, count(*))
from card_printing_tag group by card_id, anonymous_id, printing_id having count(*) > 1
union all
select format('vote %s names %s', id, case when is_no_match then 'both' else 'neither' end)
from card_printing_tag where (printing_id is not null) = is_no_match`, false},
		{"evidence-hashed", 3, "evidence exists only for cards with a perceptual hash", `/* conveyor:check-evidence-hashed */
select format('evidence %s of card %s', e.id, e.card_id)
from image_evidence e join card c on c.id = e.card_id where e.content_hash is null or c.content_phash is null`, false},
		{"transfer-named", 4, "transferred evidence names a donor with the same md5", `/* conveyor:check-transfer-named */
select format('evidence %s of card %s', e.id, e.card_id)
from image_evidence e left join card donor on donor.id = e.transferred_from_card_id
where e.transferred and (donor.md5_checksum is null or donor.md5_checksum is distinct from e.md5_checksum)`, false},
		{"machine-never-resolves", 5, "a status is backed by a person's vote", `/* conveyor:check-machine-never-resolves */
select format('card %s is %s', c.id, c.printing_tag_status) from card c
where c.printing_tag_status <> 'unresolved' and not exists (
  select from identity_group(c.id) g(id) join card_printing_tag v on v.card_id = g.id and v.source in ('user', 'admin')
  where case c.printing_tag_status when 'no_match' then v.is_no_match else v.printing_id = c.inferred_canonical_card_id end)`, false},
		{"group-agrees", 7, "the members of an identity group have one status", `/* conveyor:check-group-agrees */
select format('cards %s and %s', c.id, m.id) from card c cross join lateral identity_group(c.id) g(id) join card m on m.id = g.id
where c.printing_tag_status <> 'unresolved'
  and (m.printing_tag_status, m.inferred_canonical_card_id) is distinct from (c.printing_tag_status, c.inferred_canonical_card_id)`, false},
		{"writes-attributed", 11, "every machine vote, scan log and evidence row names its run", `/* conveyor:check-writes-attributed */
select format('vote %s', id) from card_printing_tag where run_id is null and source in ('ocr', 'deduction')
union all select format('attribute vote %s', id) from card_tag_vote where run_id is null and source in ('ocr', 'deduction')
union all select format('illustration vote %s', id) from card_illustration_vote where run_id is null and source in ('ocr', 'deduction')
union all select format('illustration rejection %s', id) from card_illustration_rejection where run_id is null
union all select format('scan log %s', id) from card_scan_log where run_id is null
union all select format('evidence %s', id) from image_evidence where run_id is null`, false},
		{"votes-archived", 13, "a replaced vote keeps an archive copy that names its successor", `/* conveyor:check-votes-archived */
select format('archived vote %s', original_id) from archived_card_printing_tag
where superseded_by_run_id = '' or original_id in (select id from card_printing_tag)`, false},
		{"votes-on-evidence", 14, "a machine vote that was not propagated sits on current evidence", `/* conveyor:check-votes-on-evidence */
select format('vote %s on card %s', v.id, v.card_id) from card_printing_tag v join card c on c.id = v.card_id
where v.source in ('ocr', 'deduction') and v.propagated_from is null and not exists (
  select from image_evidence e where e.card_id = c.id and e.content_hash = c.content_phash)`, false},
	}
}

func runInvariants() []Invariant {
	return []Invariant{
		{"completed-is-full", 15, "a COMPLETED row has its end and its counters", `/* conveyor:check-completed-is-full */
select run_id::text from pilot_run_ledger where status = 'completed' and (finished_at is null or not counters ? 'elapsed_s')`, false},
		{"failed-has-reason", 16, "a FAILED row has its end and a reason", `/* conveyor:check-failed-has-reason */
select run_id::text from pilot_run_ledger
where status = 'failed' and (finished_at is null or coalesce(counters ->> 'failure_reason', '') = '')`, false},
		{"ids-bounded", 21, "a ledger id is at most 64 bytes and its run's id begins it", `/* conveyor:check-ids-bounded */
select run_id::text from pilot_run_ledger
where octet_length(run_id) > 64 or command in ('stage_e_streaming_dispatch', 'run_pipeline') and not starts_with(run_id, data_run_id)`, false},
		{"one-session-per-batch", 22, "the coordinator's session is the same before and after Stage C", `/* conveyor:check-one-session-per-batch */
select format('%s: backend %s, then %s', run_id, counters ->> 'backend_pid', counters ->> 'backend_pid_after')
from pilot_run_ledger where status = 'completed' and counters ? 'backend_pid' and counters ? 'backend_pid_after'
  and counters ->> 'backend_pid' is distinct from counters ->> 'backend_pid_after'`, false},
		{"slots-bounded", 30, "no more dispatches run at a time than there are slots", `/* conveyor:check-slots-bounded */
with batch as (
  select run_id, started_at, finished_at, (counters ->> 'slots')::int as slots from pilot_run_ledger
  where counters ? 'slots' and not counters ? 'reaped' and finished_at is not null order by id desc limit 1000
)
select format('%s: %s at a time with %s slots', b.run_id, count(*), b.slots) from batch b
join batch other on other.started_at <= b.started_at and other.finished_at > b.started_at and other.slots <= b.slots
group by b.run_id, b.slots having count(*) > b.slots`, false},
		{"cursor-within-catalogue", 35, "a sweep's cursor lies within the catalogue, and counts its laps", `/* conveyor:check-cursor-within-catalogue */
select format('cursor %s is at %s in lap %s', name, position, wrap_count) from stage_e_sweep_cursor
where position < 0 or wrap_count < 0 or position > (select coalesce(max(id), 0) from card)`, false},
		{"mark-within-catalogue", 40, "a resume mark lies within the catalogue", `/* conveyor:check-mark-within-catalogue */
select format('scope %s is at %s', scope, position) from stage_e_full_catalog_cursor
where position < 0 or position > (select coalesce(max(id), 0) from card)`, false},
		{"failed-fetch-without-evidence", 50, "a batch stores no evidence for a card that it could not fetch", `/* conveyor:check-failed-fetch-without-evidence */
select format('card %s in run %s', l.card_id, l.run_id) from card_scan_log l
join image_evidence e on e.card_id = l.card_id and e.run_id = l.run_id and e.updated_at < l.scanned_at
where l.anonymous_id = 'stage-c-v1' and l.skip_reason in ('fetch-failed', 'fetch-throttled')`, false},
	}
}

// restInvariants are about sessions and locks.
func restInvariants() []Invariant {
	return []Invariant{
		{"no-session-left", 25, "at rest no session of the pipeline is connected", `/* conveyor:check-no-session-left */
select format('pid %s, %s', pid, application_name) from pg_stat_activity
where application_name like 'conveyor/%' and datname = current_database() and pid <> pg_backend_pid()`, true},
		{"no-lock-left", 25, "at rest no slot and no scope is held", `/* conveyor:check-no-lock-left */
select format('pid %s holds %s/%s', pid, classid, objid) from pg_locks
where locktype = 'advisory' and granted and objsubid = 2 and classid in (1131376246, 1400137541, 1281712499)
  and database = (select oid from pg_database where datname = current_database())`, true},
		{"no-idle-transaction", 27, "no session of the pipeline idles in a transaction for a minute", `/* conveyor:check-no-idle-transaction */
select format('pid %s, %s', pid, application_name) from pg_stat_activity
where application_name like 'conveyor/%' and datname = current_database()
  and state like 'idle in transaction%' and state_change < clock_timestamp() - interval '1 minute'`, false},
		{"no-orphaned-slot", 26, "no slot's session outlives all coordinators by a minute", `/* conveyor:check-no-orphaned-slot */
select format('pid %s since %s', pid, backend_start) from pg_stat_activity
where application_name = 'conveyor/slot' and datname = current_database() and backend_start < clock_timestamp() - interval '1 minute'
  and not exists (select from pg_stat_activity where application_name = 'conveyor/coordinator' and datname = current_database())`, false},
	}
}

// envelopeInvariants are about trips.
func envelopeInvariants() []Invariant {
	return []Invariant{
		{"trips-gate", 41, "no batch starts while a trip is open", `/* conveyor:check-trips-gate */
select format('%s started under %s', r.run_id, t.trip_id) from envelope_trip t
join pilot_run_ledger r on r.command = 'stage_e_streaming_dispatch' and r.started_at > t.tripped_at + interval '1 minute'
  and (t.acknowledged_at is null or r.started_at < t.acknowledged_at)`, false},
		{"trips-closed-with-note", 42, "an acknowledged trip carries a note", `/* conveyor:check-trips-closed-with-note */
select trip_id from envelope_trip where acknowledged_at is not null and coalesce(acknowledged_note, '') = ''`, false},
		{"lockout-trips-once", 43, "each batch that met a lockout recorded a trip of its own", `/* conveyor:check-lockout-trips-once */
select r.run_id::text from pilot_run_ledger r where r.status = 'completed' and r.counters ->> 'lockout' = 'true'
  and not exists (select from envelope_trip t where t.trip_id = r.counters ->> 'lockout_trip_id' and t.bar = 'google_lockout')
union all
select counters ->> 'lockout_trip_id' from pilot_run_ledger where counters ? 'lockout_trip_id' group by 1 having count(*) > 1`, false},
	}
}

// voteInvariants are about votes and those who cast them.
func voteInvariants() []Invariant {
	return []Invariant{
		{"one-version-per-family", 10, "a card has votes of one version of an agent", `/* conveyor:check-one-version-per-family */
select format('card %s: %s', card_id, string_agg(distinct anonymous_id, ', ')) from card_printing_tag
where anonymous_id ~ '-v[0-9]+$' group by card_id, regexp_replace(anonymous_id, '-v[0-9]+$', '') having count(distinct anonymous_id) > 1`, false},
		{"propagation-replaces-nothing", 12, "a copied vote stands beside no own vote of its agent, and names its origin", `/* conveyor:check-propagation-replaces-nothing */
select format('card %s, agent %s', card_id, anonymous_id) from card_printing_tag
group by card_id, anonymous_id having bool_or(propagated_from is null) and bool_or(propagated_from is not null)
union all
select format('vote %s on card %s', id, card_id) from card_printing_tag where propagated_from = card_id`, false},
	}
}
