package slot_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/schema/schematest"
	"deadwire/pipeline/session"
	"deadwire/pipeline/slot"
)

func TestMain(m *testing.M) { os.Exit(schematest.Main(m)) }

func acquire(t *testing.T, cfg session.Config, count int) *slot.Slot {
	t.Helper()
	s, err := slot.Acquire(t.Context(), cfg, count)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = s.Release(context.Background()) }) // a second release only says so
	return s
}

func terminate(t *testing.T, cfg session.Config, pid uint32) {
	t.Helper()
	killer, err := session.Open(t.Context(), cfg, "killer")
	assert.NilError(t, err)
	done, err := session.Value[bool](t.Context(), killer, "select pg_terminate_backend($1, 5000)", int32(pid))
	assert.NilError(t, err)
	assert.Assert(t, done)
	assert.NilError(t, killer.Close(t.Context()))
}

func TestSlotsAreTakenInOrderAndBounded(t *testing.T) {
	t.Parallel()
	cfg := session.Config{URL: schematest.Database(t), Timeout: time.Minute}
	first, second := acquire(t, cfg, 2), acquire(t, cfg, 2)
	assert.Equal(t, first.Number(), 0)
	assert.Equal(t, second.Number(), 1)
	_, err := slot.Acquire(t.Context(), cfg, 2)
	assert.ErrorIs(t, err, slot.ErrBusy)
	assert.NilError(t, first.Release(t.Context()))
	assert.Equal(t, acquire(t, cfg, 2).Number(), 0)
}

func TestCountOfZeroMeansOne(t *testing.T) {
	t.Parallel()
	assert.Equal(t, acquire(t, session.Config{URL: schematest.Database(t), Timeout: time.Minute}, 0).Number(), 0)
}

func TestNoSessionMeansNoPermission(t *testing.T) {
	t.Parallel()
	_, err := slot.Acquire(t.Context(), session.Config{URL: "postgres://127.0.0.1:1/x?sslmode=disable"}, 1)
	_, unavailable := errors.AsType[*slot.UnavailableError](err)
	assert.Assert(t, unavailable, "%v", err)
}

func TestLostSlotIsNoticedAndFreeForOthers(t *testing.T) {
	t.Parallel()
	cfg := session.Config{URL: schematest.Database(t), Timeout: time.Minute}
	held := acquire(t, cfg, 1)
	assert.NilError(t, held.Check(t.Context()))
	terminate(t, cfg, held.BackendPID())
	assert.ErrorIs(t, held.Check(t.Context()), slot.ErrNotHeld)
	assert.ErrorIs(t, held.Release(t.Context()), slot.ErrNotHeld)
	assert.Equal(t, acquire(t, cfg, 1).Number(), 0)
}

func TestReleaseWorksForACancelledCaller(t *testing.T) {
	t.Parallel()
	cfg := session.Config{URL: schematest.Database(t), Timeout: time.Minute}
	held := acquire(t, cfg, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.NilError(t, held.Release(ctx))
	assert.Equal(t, acquire(t, cfg, 1).Number(), 0)
}
