package session_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gotest.tools/v3/assert"

	"deadwire/pipeline/schema"
	"deadwire/pipeline/schema/schematest"
	"deadwire/pipeline/session"
)

func TestMain(m *testing.M) { os.Exit(schematest.Main(m)) }

func open(t *testing.T, url, name string) *session.Session {
	t.Helper()
	s, err := session.Open(t.Context(), session.Config{URL: url, Timeout: time.Minute}, name)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, s.Close(context.Background())) })
	return s
}

func value[T any](t *testing.T, s *session.Session, sql string, args ...any) T {
	t.Helper()
	v, err := session.Value[T](t.Context(), s, sql, args...)
	assert.NilError(t, err)
	return v
}

func TestSessionIsNamedAndWatchedByTheServer(t *testing.T) {
	t.Parallel()
	s := open(t, schematest.Database(t), "worker-1")
	assert.Equal(t, value[string](t, s, "select current_setting('application_name')"), "conveyor/worker-1")
	assert.Equal(t, value[string](t, s, "select current_setting('client_connection_check_interval')"), "10s")
	assert.Equal(t, value[string](t, s, "select current_setting('jit')"), "off")
	assert.Equal(t, value[int64](t, s, "select pg_backend_pid()::bigint"), int64(s.BackendPID()))
}

func TestOwnersCloseIsFinal(t *testing.T) {
	t.Parallel()
	s := open(t, schematest.Database(t), "coordinator")
	assert.NilError(t, s.Close(t.Context()))
	assert.NilError(t, s.Close(t.Context()))
	_, err := s.Exec(t.Context(), "select 1")
	assert.ErrorIs(t, err, session.ErrClosed)
	_, err = s.SyscallConn()
	assert.ErrorIs(t, err, session.ErrClosed)
	assert.Assert(t, s.Closed())
	assert.Assert(t, !s.Lost(), "closed by its owner is not lost")
}

func TestTerminatedSessionIsLostAndStaysLost(t *testing.T) {
	t.Parallel()
	url := schematest.Database(t)
	victim, killer := open(t, url, "coordinator"), open(t, url, "killer")
	assert.Assert(t, value[bool](t, killer, "select pg_terminate_backend($1, 5000)", int32(victim.BackendPID())))
	_, err := victim.Exec(t.Context(), "select 1")
	assert.Assert(t, err != nil)
	assert.Assert(t, victim.Lost())
	_, err = victim.Exec(t.Context(), "select 1")
	assert.Assert(t, err != nil, "a lost session is never silently reopened")
}

func TestOverrunStatementLosesTheSessionInTime(t *testing.T) {
	t.Parallel()
	s, err := session.Open(t.Context(), session.Config{URL: schematest.Database(t), Timeout: 2 * time.Second}, "x")
	assert.NilError(t, err)
	began := time.Now()
	_, err = s.Exec(t.Context(), "select pg_sleep(60)")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Assert(t, time.Since(began) < 30*time.Second)
	assert.Assert(t, s.Lost())
	assert.NilError(t, s.Close(t.Context()))
}

func TestOverrunStatementDoesNotGoOnInTheServer(t *testing.T) {
	t.Parallel()
	url := schematest.Database(t)
	s, err := session.Open(t.Context(), session.Config{URL: url, Timeout: 2 * time.Second}, "x")
	assert.NilError(t, err)
	_, err = s.Exec(t.Context(), "select pg_sleep(60)")
	assert.Assert(t, err != nil)
	assert.NilError(t, s.Close(t.Context()))
	schematest.Eventually(t, url, "select not exists (select from pg_stat_activity where pid = $1)", int32(s.BackendPID()))
}

func TestNoNamedStatementIsLeftInTheSession(t *testing.T) {
	t.Parallel()
	s := open(t, schematest.Database(t), "x")
	for range 3 {
		value[bool](t, s, schema.SlotHeld, int64(1), int64(1))
	}
	assert.Equal(t, value[int64](t, s, "select count(*) from pg_prepared_statements where name <> ''"), int64(0))
}

func TestCancelledCallerDoesNotCostTheSession(t *testing.T) {
	t.Parallel()
	s := open(t, schematest.Database(t), "coordinator")
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	timer := time.AfterFunc(50*time.Millisecond, func() { cancel(stopped) })
	defer timer.Stop()
	_, err := s.Exec(ctx, "select pg_sleep(0.3)")
	assert.NilError(t, err, "the running statement may end")
	_, err = s.Exec(ctx, "select 1")
	assert.ErrorIs(t, err, stopped)
	assert.Assert(t, !s.Lost())
	assert.Equal(t, value[int32](t, s, "select 7"), int32(7))
}

func TestTransactionCommitsOrLeavesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, schematest.Database(t), "x")
	insert := "insert into stage_e_full_catalog_cursor (scope) values ($1)"
	boom := errors.New("boom")
	err := s.InTx(t.Context(), func(tx *session.Tx) error {
		_, err := tx.Exec(t.Context(), insert, "lost")
		return errors.Join(err, boom)
	})
	assert.ErrorIs(t, err, boom)
	assert.NilError(t, s.InTx(t.Context(), func(tx *session.Tx) error {
		return tx.Batch(t.Context(), session.Step{SQL: insert, Args: []any{"kept"}, Want: 1})
	}))
	assert.Equal(t, value[string](t, s, "select scope from stage_e_full_catalog_cursor"), "kept")
}

func TestBatchNamesTheStepWhoseRowCountIsWrong(t *testing.T) {
	t.Parallel()
	s := open(t, schematest.Database(t), "x")
	err := s.InTx(t.Context(), func(tx *session.Tx) error {
		return tx.Batch(t.Context(),
			session.Step{SQL: schema.Throttled, Want: 1},
			session.Step{SQL: schema.LedgerFail, Args: []any{"nobody", "why", map[string]any{}}, Want: 1})
	})
	assert.Error(t, err, "ledger-fail: statement changed 0 rows instead of 1")
	assert.Equal(t, value[int64](t, s, "select count from stage_e_throttle_counter"), int64(0), "rolled back")
}

func TestScopeHasOneHolderAndNamesIt(t *testing.T) {
	t.Parallel()
	url := schematest.Database(t)
	first, second := open(t, url, "coordinator"), open(t, url, "coordinator")
	assert.NilError(t, first.LockScope(t.Context(), "full-catalog"))
	err := second.LockScope(t.Context(), "full-catalog")
	held, ok := errors.AsType[*session.HeldError](err)
	assert.Assert(t, ok, "%v", err)
	assert.Equal(t, held.PID, int32(first.BackendPID()))
	assert.Equal(t, held.Application, "conveyor/coordinator")
	assert.NilError(t, second.LockScope(t.Context(), "source:other"))
	assert.NilError(t, first.Close(t.Context()))
	assert.Assert(t, !value[bool](t, second, "select exists (select from pg_stat_activity where pid = $1)", held.PID),
		"Close waited for the server")
	assert.NilError(t, second.LockScope(t.Context(), "full-catalog"), "the lock ended with its session")
}

func TestSocketIsCloseOnExecAndNonBlocking(t *testing.T) {
	t.Parallel()
	s := open(t, schematest.Database(t), "x")
	raw, err := s.SyscallConn()
	assert.NilError(t, err)
	assert.NilError(t, raw.Control(func(fd uintptr) {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFD, 0)
		assert.Equal(t, errno, syscall.Errno(0))
		assert.Assert(t, flags&syscall.FD_CLOEXEC != 0)
		mode, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFL, 0)
		assert.Equal(t, errno, syscall.Errno(0))
		assert.Assert(t, mode&syscall.O_NONBLOCK != 0)
	}))
}

func TestRefusedConnectionIsAnErrorWithoutPassword(t *testing.T) {
	t.Parallel()
	_, err := session.Open(t.Context(), session.Config{URL: "postgres://u:geheim@127.0.0.1:1/x?sslmode=disable"}, "x")
	assert.ErrorContains(t, err, "open session conveyor/x")
	assert.Assert(t, !strings.Contains(err.Error(), "geheim"))
}

func TestNoGoroutineOutlivesASession(t *testing.T) {
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := session.Open(ctx, session.Config{URL: schematest.Database(t), Timeout: time.Minute}, "x")
	assert.NilError(t, err)
	_, err = s.Exec(ctx, "select 1")
	assert.NilError(t, err)
	cancel()
	assert.NilError(t, s.Close(ctx))
	goleak.VerifyNone(t, before)
}
