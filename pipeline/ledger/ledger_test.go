package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/ledger"
	"deadwire/pipeline/schema/schematest"
	"deadwire/pipeline/session"
)

func TestMain(m *testing.M) { os.Exit(schematest.Main(m)) }

type rig struct {
	cfg         session.Config
	coordinator *session.Session
	observer    *session.Session
	ledger      *ledger.Ledger
}

func setup(t *testing.T) rig {
	t.Helper()
	cfg := session.Config{URL: schematest.Database(t), Timeout: time.Minute}
	r := rig{cfg: cfg, coordinator: open(t, cfg, "coordinator"), observer: open(t, cfg, "observer")}
	r.ledger = ledger.New(r.coordinator, cfg)
	return r
}

func open(t *testing.T, cfg session.Config, name string) *session.Session {
	t.Helper()
	s, err := session.Open(t.Context(), cfg, name)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, s.Close(context.Background())) })
	return s
}

func (r rig) start(t *testing.T, id string) {
	t.Helper()
	assert.NilError(t, r.ledger.Start(t.Context(), ledger.Row{
		ID: id, DataRun: "data", Command: "test", Counters: ledger.Counters{"batch_size": 12},
	}))
}

func (r rig) text(t *testing.T, sql string, args ...any) string {
	t.Helper()
	value, err := session.Value[string](t.Context(), r.observer, sql, args...)
	assert.NilError(t, err)
	return value
}

func (r rig) status(t *testing.T, id string) string {
	t.Helper()
	return r.text(t, "select status from pilot_run_ledger where run_id = $1", id)
}

func (r rig) terminate(t *testing.T) {
	t.Helper()
	done, err := session.Value[bool](t.Context(), r.observer, "select pg_terminate_backend($1, 5000)", int32(r.coordinator.BackendPID()))
	assert.NilError(t, err)
	assert.Assert(t, done)
}

func TestCompleteMergesCountersOnce(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.start(t, "b1")
	assert.Equal(t, r.status(t, "b1"), ledger.Running)
	assert.NilError(t, r.ledger.Complete(t.Context(), "b1", 3, time.Second, ledger.Counters{"x": 1}))
	assert.Equal(t, r.text(t, "select (counters - 'backend_pid_after')::text from pilot_run_ledger"), `{"x": 1, "elapsed_s": 1, "batch_size": 12}`)
	assert.Equal(t, r.text(t, "select counters ->> 'backend_pid_after' from pilot_run_ledger"), fmt.Sprint(r.coordinator.BackendPID()))
	_, again := errors.AsType[*session.RowCountError](r.ledger.Complete(t.Context(), "b1", 3, time.Second, nil))
	assert.Assert(t, again, "a row ends once")
}

func TestFailKeepsCreationCountersAndGivesAReason(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.start(t, "b1")
	state, err := r.ledger.Fail(t.Context(), "b1", strings.Repeat("ä\x00", 3000), ledger.Counters{"batch_size": 99})
	assert.NilError(t, err)
	assert.Equal(t, state, ledger.Failed)
	assert.Equal(t, r.text(t, "select counters ->> 'batch_size' from pilot_run_ledger"), "12")
	assert.Equal(t, r.text(t, "select length(failure_reason)::text from pilot_run_ledger"), "2000")
}

func TestEmptyReasonIsStillAReason(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.start(t, "b1")
	_, err := r.ledger.Fail(t.Context(), "b1", "", nil)
	assert.NilError(t, err)
	assert.Equal(t, r.text(t, "select failure_reason from pilot_run_ledger"), "unknown")
}

func TestCompletedNeverBecomesFailed(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.start(t, "b1")
	assert.NilError(t, r.ledger.Complete(t.Context(), "b1", 0, time.Second, nil))
	state, err := r.ledger.Fail(t.Context(), "b1", "late", nil)
	assert.NilError(t, err)
	assert.Equal(t, state, ledger.Completed)
	assert.Equal(t, r.status(t, "b1"), ledger.Completed)
}

func TestFailAfterCancelUsesTheOriginalSession(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.start(t, "b1")
	pid := r.coordinator.BackendPID()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	state, err := r.ledger.Fail(ctx, "b1", "interrupted", nil)
	assert.NilError(t, err)
	assert.Equal(t, state, ledger.Failed)
	assert.Equal(t, r.coordinator.BackendPID(), pid)
	assert.Assert(t, !r.coordinator.Lost())
}

func TestFailAfterTheSessionWasLostOpensAnother(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.start(t, "b1")
	r.terminate(t)
	state, err := r.ledger.Fail(t.Context(), "b1", "lost", nil)
	assert.NilError(t, err)
	assert.Equal(t, state, ledger.Failed)
	assert.Equal(t, r.status(t, "b1"), ledger.Failed)
	assert.Assert(t, r.coordinator.Lost(), "the coordinator's own session was not replaced")
}

func TestFailAfterTheOwnersCloseLeavesTheRowRunning(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.start(t, "b1")
	assert.NilError(t, r.coordinator.Close(t.Context()))
	state, err := r.ledger.Fail(t.Context(), "b1", "closed", nil)
	_, unmarked := errors.AsType[*ledger.UnmarkedError](err)
	assert.Assert(t, unmarked, "%v", err)
	assert.ErrorIs(t, err, session.ErrClosed)
	assert.Equal(t, state, ledger.Running)
	assert.Equal(t, r.status(t, "b1"), ledger.Running)
}

func TestFailOfARowThatWasNeverWrittenSaysSo(t *testing.T) {
	t.Parallel()
	r := setup(t)
	state, err := r.ledger.Fail(t.Context(), "nobody", "start failed", nil)
	assert.NilError(t, err)
	assert.Equal(t, state, ledger.Absent)
}

func TestIdsAreUniqueAndBounded(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.start(t, "b1")
	row := ledger.Row{ID: "b1", DataRun: "data", Command: "test"}
	assert.Assert(t, session.IsServerError(r.ledger.Start(t.Context(), row)))
	row.ID = strings.Repeat("x", 65)
	assert.ErrorContains(t, r.ledger.Start(t.Context(), row), "longer than 64 bytes")
}
