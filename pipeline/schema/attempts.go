package schema

// Statements about cards whose compute may kill its worker.
const (
	// Claim notes that this session's worker ($3, of run $2) has card $1 in hand, before
	// its compute. It is not waited for on disk: what it must outlive is the worker, not
	// the server.
	Claim = `/* conveyor:claim */ select claim_card($1, $2, $3)`

	// Unclaim takes this session's claim back, and forgets the deaths over a card that a
	// worker survived.
	Unclaim = `/* conveyor:unclaim */ select unclaim_card($1)`

	// Absolve takes back the claim of a worker ($2, of run $3) that answered with an
	// error: it lives, even where its session does not.
	Absolve = `/* conveyor:absolve */
delete from stage_c_claim k using card c
where c.id = k.card_id and c.identifier = $1 and k.worker = $2 and k.run_id = $3`

	// Blame turns the claim of a worker ($3, of run $4) that was seen to die over a card
	// into a death, with what is known of it ($2).
	Blame = `/* conveyor:blame */
with gone as (
  delete from stage_c_claim k using card c
  where c.id = k.card_id and c.identifier = $1 and k.worker = $3 and k.run_id = $4 returning k.*
)
insert into stage_c_attempt as a (card_id, content_hash, attempts, run_id, worker, reason)
select card_id, content_hash, 1, run_id, worker, left($2, 2000) from gone limit 1
` + death

	// Orphans turns claims whose session is gone and that nobody spoke for into one death
	// for each card, however many claims there were: whole dispatchers may have been
	// ended at once, and that says little about a card. Claims from before the server's
	// start say nothing.
	Orphans = `/* conveyor:orphans */
with gone as (
  delete from stage_c_claim k where not exists (
    select from pg_stat_activity s where s.pid = k.backend_pid and coalesce(s.backend_start = k.backend_start, true))
  returning k.*
), last as (
  select distinct on (card_id) * from gone where claimed_at > pg_postmaster_start_time() order by card_id, claimed_at desc
)
insert into stage_c_attempt as a (card_id, content_hash, attempts, run_id, worker, reason)
select card_id, content_hash, 1, run_id, worker, 'the worker is gone, and so is its coordinator' from last
` + death

	// death adds one to a card's deaths over the same image.
	death = `on conflict (card_id) do update set
  attempts = case when a.content_hash = excluded.content_hash then a.attempts + 1 else 1 end,
  content_hash = excluded.content_hash, run_id = excluded.run_id, worker = excluded.worker, reason = excluded.reason,
  attempted_at = now(), parked_at = null`

	// Park gives cards up after too many attempts; the scan log that says so is
	// written in the same transaction.
	Park = `/* conveyor:park */
update stage_c_attempt set parked_at = clock_timestamp() where card_id = any($1) and parked_at is null`

	// ParkedList shows what is parked or has been counted at least once.
	ParkedList = `/* conveyor:parked-list */
select c.identifier, a.attempts, a.parked_at is not null as parked, a.run_id, a.worker, a.reason, a.attempted_at
from stage_c_attempt a join card c on c.id = a.card_id order by a.attempts desc, c.id limit $1`

	// ParkedRelease makes cards eligible again; an empty list means all of them.
	ParkedRelease = `/* conveyor:parked-release */
delete from stage_c_attempt a using card c
where c.id = a.card_id and (cardinality($1::text[]) = 0 or c.identifier = any($1))`
)
