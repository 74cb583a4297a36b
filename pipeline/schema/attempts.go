package schema

// Statements about cards whose compute may kill its worker.
const (
	// Claim counts an attempt on a card before its compute. It is not waited for on
	// disk: what it must outlive is the worker, not the server.
	Claim = `/* conveyor:claim */
insert into stage_c_attempt as a (card_id, content_hash, attempts, run_id, worker)
select c.id, c.content_phash, 1, $2, $3
from card c, (select set_config('synchronous_commit', 'off', true) as off) s
where c.id = $1 and c.content_phash is not null and s.off is not null
on conflict (card_id) do update set
  attempts = case when a.content_hash = excluded.content_hash then a.attempts + 1 else 1 end,
  content_hash = excluded.content_hash, run_id = excluded.run_id, worker = excluded.worker,
  attempted_at = now(), parked_at = null`

	// Unclaim forgets the attempts on a card whose worker survived them.
	Unclaim = `/* conveyor:unclaim */ delete from stage_c_attempt where card_id = $1`

	// Blame keeps what is known of a worker's death beside the attempt.
	Blame = `/* conveyor:blame */
update stage_c_attempt a set reason = left($2, 2000) from card c where c.id = a.card_id and c.identifier = $1`

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
