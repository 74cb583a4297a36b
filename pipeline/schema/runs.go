package schema

// Statements of the ledger.
const (
	// LedgerStart records a batch before any of its work.
	LedgerStart = `/* conveyor:ledger-start */
insert into pilot_run_ledger (run_id, data_run_id, command, git_sha, counters, owner_host, owner_pid, owner_started, lease)
values ($1, $2, $3, $4, $5, $6, $7, $8, nullif($9, 0))`

	// LedgerComplete must update exactly one row; any other count means that the
	// answer, or the row, is not ours.
	LedgerComplete = `/* conveyor:ledger-complete */
update pilot_run_ledger
set status = 'completed', finished_at = clock_timestamp(), votes_written = $2,
    counters = counters || $3 || jsonb_build_object('backend_pid_after', pg_backend_pid())
where run_id = $1 and status = 'running'`

	// LedgerFail keeps what the row's creation wrote and adds the reason.
	LedgerFail = `/* conveyor:ledger-fail */
update pilot_run_ledger
set status = 'failed', finished_at = clock_timestamp(),
    counters = $3 || counters || jsonb_build_object('failure_reason', $2::text)
where run_id = $1 and status = 'running'`

	// LedgerReap fails the RUNNING rows whose owner is gone: nobody holds their lease.
	// A row without a lease is given twelve hours. Locks show their keys unsigned.
	LedgerReap = `/* conveyor:ledger-reap */
update pilot_run_ledger r
set status = 'failed', finished_at = clock_timestamp(), counters = r.counters || jsonb_build_object('reaped', true,
  'failure_reason', format('owner gone: pid %s on %s, started %s', r.owner_pid, coalesce(nullif(r.owner_host, ''), 'an unknown host'),
    coalesce(to_char(r.owner_started at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'unknown')))
where r.status = 'running' and case when r.lease is null then r.started_at < now() - interval '12 hours'
  else not exists (select from pg_locks l where l.locktype = 'advisory' and l.granted and l.objsubid = 2
    and l.database = (select oid from pg_database where datname = current_database())
    and l.classid::bigint = 1281712499 and l.objid::bigint = r.lease::bigint & 4294967295) end
returning r.run_id`

	// LedgerStatus reads back what an interrupted write left.
	LedgerStatus = `/* conveyor:ledger-status */ select status from pilot_run_ledger where run_id = $1`
)

// RunChannels counts a run's votes of every kind by agent.
const RunChannels = `/* conveyor:run-channels */
select anonymous_id::text, sum(n)::bigint from (
  select anonymous_id, count(*) as n from card_printing_tag where run_id = $1 group by 1
  union all select anonymous_id, count(*) from card_illustration_vote where run_id = $1 group by 1
  union all select anonymous_id, count(*) from card_tag_vote where run_id = $1 group by 1) v group by 1 order by 1`

// Statements of the command status.
const (
	// StatusCounts gives one row of totals. Abandoned counts RUNNING rows whose lease
	// nobody holds: their coordinator was killed hard, or had lost its session by its
	// own act.
	StatusCounts = `/* conveyor:status */
select (select count(*) from card) as cards,
       (select count(*) from card where content_phash is not null) as hashed,
       (select count(distinct e.card_id) from image_evidence e join card c on c.id = e.card_id
         where e.extractor_versions @> $1) as extracted,
       (select count(*) from image_evidence) as evidence,
       (select count(*) from card_printing_tag) as votes,
       (select count(*) from card_printing_tag where is_no_match) as no_match_votes,
       (select count(*) from card_scan_log) as scan_logs,
       (select count(*) from pilot_run_ledger where status = 'running') as running,
       (select count(*) from pilot_run_ledger r where status = 'running' and not exists (
         select from pg_locks l where l.locktype = 'advisory' and l.granted and l.objsubid = 2 and l.classid::bigint = 1281712499
           and l.database = (select oid from pg_database where datname = current_database())
           and l.objid::bigint = r.lease::bigint & 4294967295)) as abandoned,
       (select count(*) from pilot_run_ledger where status = 'completed') as completed,
       (select count(*) from pilot_run_ledger where status = 'failed') as failed,
       (select count(*) from envelope_trip where acknowledged_at is null) as open_trips,
       (select count(*) from card where printing_tag_status <> 'unresolved') as resolved,
       (select count from stage_e_throttle_counter where key = 1) as throttled`

	// StatusRuns gives the newest ledger rows.
	StatusRuns = `/* conveyor:status-runs */
select run_id, data_run_id, status, started_at, finished_at, votes_written, coalesce(failure_reason, '') as failure_reason
from pilot_run_ledger order by id desc limit $1`
)
