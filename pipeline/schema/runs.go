package schema

// Statements of the ledger.
const (
	// LedgerStart records a batch before any of its work.
	LedgerStart = `/* conveyor:ledger-start */
insert into pilot_run_ledger (run_id, data_run_id, command, git_sha, counters) values ($1, $2, $3, $4, $5)`

	// LedgerComplete must update exactly one row; any other count means that the
	// answer, or the row, is not ours.
	LedgerComplete = `/* conveyor:ledger-complete */
update pilot_run_ledger
set status = 'completed', finished_at = clock_timestamp(), votes_written = $2, counters = counters || $3
where run_id = $1 and status = 'running'`

	// LedgerFail keeps what the row's creation wrote and adds the reason.
	LedgerFail = `/* conveyor:ledger-fail */
update pilot_run_ledger
set status = 'failed', finished_at = clock_timestamp(),
    counters = $3 || counters || jsonb_build_object('failure_reason', $2::text)
where run_id = $1 and status = 'running'`

	// LedgerStatus reads back what an interrupted write left.
	LedgerStatus = `/* conveyor:ledger-status */ select status from pilot_run_ledger where run_id = $1`
)

// Statements of the command status.
const (
	// StatusCounts gives one row of totals. Abandoned counts RUNNING rows while no
	// stream holds a scope: their coordinator was killed hard, or had lost its session
	// by its own act.
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
       (select case when exists (select from pg_locks where locktype = 'advisory' and granted and objsubid = 2
           and classid = 1131376246 and database = (select oid from pg_database where datname = current_database()))
         then 0 else (select count(*) from pilot_run_ledger where status = 'running') end) as abandoned,
       (select count(*) from pilot_run_ledger where status = 'completed') as completed,
       (select count(*) from pilot_run_ledger where status = 'failed') as failed,
       (select count from stage_e_throttle_counter where key = 1) as throttled`

	// StatusRuns gives the newest ledger rows.
	StatusRuns = `/* conveyor:status-runs */
select run_id, data_run_id, status, started_at, finished_at, votes_written, coalesce(failure_reason, '') as failure_reason
from pilot_run_ledger order by id desc limit $1`
)
