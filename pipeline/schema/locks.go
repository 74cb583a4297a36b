package schema

// The namespaces (first key) of conveyor's two-key session advisory locks.
const (
	// ScopeNamespace is "Conv": one stream at a time over one scope.
	ScopeNamespace int32 = 0x436F6E76
	// SlotNamespace is "StgE": at most N dispatches at a time over all scopes.
	SlotNamespace int32 = 0x53746745
	// LeaseNamespace is "Leas": the owner of RUNNING ledger rows is alive.
	LeaseNamespace int32 = 0x4C656173
)

// Statements about sessions and session advisory locks.
const (
	// SessionPlain keeps the server from compiling plans to machine code: every statement
	// here is bounded by a batch, and compiling one takes longer than running it for ever so
	// many batches.
	SessionPlain = `/* conveyor:session-plain */ select set_config('jit', 'off', false)`

	// SessionSetup does the same, and makes the server notice within ten seconds that its
	// client is gone, even in the middle of a query (PostgreSQL 14 or later).
	SessionSetup = `/* conveyor:session-setup */
select set_config('jit', 'off', false), set_config('client_connection_check_interval', '10s', false)`

	// ScopeLock takes the scope for the life of the session; it does not wait.
	ScopeLock = `/* conveyor:scope-lock */ select pg_try_advisory_lock($1::int, $2::int)`

	// ScopeUnlock gives the scope back.
	ScopeUnlock = `/* conveyor:scope-unlock */ select pg_advisory_unlock($1::int, $2::int)`

	// ScopeHolder names the session that holds the scope. pg_locks shows the keys
	// as unsigned numbers; objsubid 2 marks a lock with two keys.
	ScopeHolder = `/* conveyor:scope-holder */
select l.pid, coalesce(a.application_name, '')
from pg_locks l left join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and l.objsubid = 2
  and l.database = (select oid from pg_database where datname = current_database())
  and l.classid::bigint = $1::bigint & 4294967295 and l.objid::bigint = $2::bigint & 4294967295`

	// LeaseLock takes the lease that an owner's ledger rows name.
	LeaseLock = `/* conveyor:lease-lock */ select pg_try_advisory_lock($1::int, $2::int)`

	// SlotLock takes one slot; it does not wait.
	SlotLock = `/* conveyor:slot-lock */ select pg_try_advisory_lock($1::int, $2::int)`

	// SlotUnlock gives the slot back; false means that this session did not hold it.
	SlotUnlock = `/* conveyor:slot-unlock */ select pg_advisory_unlock($1::int, $2::int)`

	// SlotHeld asks whether this very session still holds the slot.
	SlotHeld = `/* conveyor:slot-check */
select exists (
  select from pg_locks
  where locktype = 'advisory' and granted and objsubid = 2 and pid = pg_backend_pid()
    and classid::bigint = $1::bigint & 4294967295 and objid::bigint = $2::bigint & 4294967295)`

	// Throttled counts a refused dispatch in one atomic statement.
	Throttled = `/* conveyor:throttled */
update stage_e_throttle_counter set count = count + 1, last_throttled_at = now() where key = 1`
)
