package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/dispatch"
	"deadwire/pipeline/ledger"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/schema/schematest"
	"deadwire/pipeline/session"
	"deadwire/pipeline/slot"
)

func TestMain(m *testing.M) { os.Exit(schematest.Main(m)) }

// rig is a database with n cards, each of which shows the printing of its number.
type rig struct {
	t           *testing.T
	cfg         dispatch.Config
	coordinator *session.Session
	worker      *session.Session
	broken      map[int64]string
	during      func(batch int)
	batches     int
	unreadable  map[int64]bool
}

func setup(t *testing.T, cards int) *rig {
	t.Helper()
	sessions := session.Config{URL: schematest.Database(t), Timeout: time.Minute}
	r := &rig{t: t, coordinator: open(t, sessions, "coordinator"), worker: open(t, sessions, "worker-1")}
	r.cfg = dispatch.Config{
		Run: "run", Attempt: "a1", Scope: "full-catalog", Batch: 4, ThrottleRetries: 1, ThrottleWait: time.Millisecond,
		Versions: map[string]string{"x": "1"}, Sessions: sessions,
	}
	r.exec(`insert into source (key, name, identifier, source_type) values ('s', 's', 's', 'local_file')`)
	r.exec(`insert into printing (identifier, canonical_id, name, normal_name, set_code, collector_number)
		select gen_random_uuid(), gen_random_uuid(), 'Card ' || i, 'card' || i, 'ABC', i from generate_series(1, $1::int) i`, cards)
	r.exec(`insert into card (identifier, source_id, name, file, content_phash, md5_checksum)
		select 'c' || i, 1, 'Card ' || i, i || '.png', i * 100, md5(i::text) from generate_series(1, $1::int) i`, cards)
	return r
}

func open(t *testing.T, cfg session.Config, name string) *session.Session {
	t.Helper()
	s, err := session.Open(t.Context(), cfg, name)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, s.Close(context.Background())) })
	return s
}

func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	_, err := r.worker.Exec(r.t.Context(), sql, args...)
	assert.NilError(r.t, err)
}

func (r *rig) count(sql string, args ...any) int {
	r.t.Helper()
	n, err := session.Value[int64](r.t.Context(), r.worker, "select count(*) from "+sql, args...)
	assert.NilError(r.t, err)
	return int(n)
}

func (r *rig) text(sql string) string {
	r.t.Helper()
	value, err := session.Value[string](r.t.Context(), r.worker, sql)
	assert.NilError(r.t, err)
	return value
}

// Extract persists plausible evidence on a session of its own, as a worker would.
func (r *rig) Extract(ctx context.Context, run string, cards []dispatch.Card) (dispatch.Extraction, error) {
	var done dispatch.Extraction
	r.batches++
	for _, card := range cards {
		if reason, bad := r.broken[card.ID]; bad {
			done.FetchFailures++
			done.Skips = append(done.Skips, dispatch.Skip{Card: card.ID, Reason: reason})
			continue
		}
		facts := map[string]any{
			"versions": r.cfg.Versions, "fetch_ok": true, "set_code": "ABC", "collector_number": fmt.Sprint(card.ContentPhash / 100),
		}
		if r.unreadable[card.ID] {
			facts = map[string]any{"versions": r.cfg.Versions, "truncated": true}
			done.Damaged++
		}
		err := session.Expect(1)(session.Value[int64](ctx, r.worker, schema.Persist, card.ID, facts, card.ContentPhash, run, dispatch.Agent, []string{}))
		if err != nil {
			return done, err
		}
		done.Completed++
	}
	if r.during != nil {
		r.during(r.batches)
	}
	return done, ctx.Err()
}

func (r *rig) stream() (dispatch.Summary, error) {
	return dispatch.New(r.cfg, r.coordinator, r).Stream(r.t.Context())
}

// again is a later stream: a new run id on a new session.
func (r *rig) again() (dispatch.Summary, error) {
	r.cfg.Run, r.during = r.cfg.Run+"+", nil
	r.coordinator = open(r.t, r.cfg.Sessions, "coordinator")
	return r.stream()
}

func (r *rig) terminate(pid uint32) {
	r.t.Helper()
	ended, err := session.Value[bool](r.t.Context(), r.worker, "select pg_terminate_backend($1, 5000)", int32(pid))
	assert.NilError(r.t, err)
	assert.Assert(r.t, ended)
}

// assertConverged checks that each card got its own printing exactly once.
func (r *rig) assertConverged(cards int) {
	r.t.Helper()
	assert.Equal(r.t, r.count("image_evidence"), cards)
	assert.Equal(r.t, r.count("card_printing_tag"), cards)
	assert.Equal(r.t, r.count("card_printing_tag where card_id = printing_id and confidence = 0.85"), cards)
	for _, invariant := range schema.Invariants() {
		if !invariant.AtRest {
			breaches, err := session.Column[string](r.t.Context(), r.worker, invariant.SQL)
			assert.NilError(r.t, err)
			assert.Equal(r.t, len(breaches), 0, "%s: %v", invariant.Name, breaches)
		}
	}
}

func TestStreamFinishesTheCatalogueInBatches(t *testing.T) {
	t.Parallel()
	r := setup(t, 10)
	pid := r.coordinator.BackendPID()
	total, err := r.stream()
	assert.NilError(t, err)
	assert.Equal(t, total.Status, dispatch.Complete)
	assert.Equal(t, total.Batches, 3)
	assert.Equal(t, total.Votes, 10)
	assert.Equal(t, r.coordinator.BackendPID(), pid)
	assert.Equal(t, r.count("pilot_run_ledger where status = 'completed' and votes_written > 0"), 3)
	r.assertConverged(10)
	again, err := r.again()
	assert.NilError(t, err)
	assert.Equal(t, again.Batches, 0)
	r.assertConverged(10)
}

func TestFailedCardsArePassedByAndFinishedByTheNextStream(t *testing.T) {
	t.Parallel()
	r := setup(t, 10)
	r.broken = map[int64]string{2: dispatch.FetchFailed, 9: dispatch.WrongImage}
	total, err := r.stream()
	assert.NilError(t, err)
	assert.Equal(t, total.Status, dispatch.WorkLeft)
	assert.Equal(t, total.FetchFailures, 2)
	assert.Equal(t, r.count("card_scan_log where anonymous_id = 'stage-c-v1' and run_id = 'run'"), 2)
	assert.Equal(t, r.count("card_scan_log where skip_reason = 'no-evidence'"), 2)
	r.broken = nil
	total, err = r.again()
	assert.NilError(t, err)
	assert.Equal(t, total.Status, dispatch.Complete)
	assert.Equal(t, total.Cards, 2)
	r.assertConverged(10)
}

func TestDamagedImageIsFinal(t *testing.T) {
	t.Parallel()
	r := setup(t, 3)
	r.unreadable = map[int64]bool{2: true}
	total, err := r.stream()
	assert.NilError(t, err)
	assert.Equal(t, total.Status, dispatch.Complete)
	assert.Equal(t, r.count("card_scan_log where card_id = 2 and skip_reason = 'truncated-image'"), 1)
	total, err = r.again()
	assert.NilError(t, err)
	assert.Equal(t, total.Cards, 0)
}

func TestTwinInALaterBatchInheritsTheVerdict(t *testing.T) {
	t.Parallel()
	r := setup(t, 6)
	r.exec("update card set md5_checksum = md5('1'), name = 'Card 1' where id = 6")
	total, err := r.stream()
	assert.NilError(t, err)
	assert.Equal(t, total.Propagated, 1)
	assert.Equal(t, r.count("card_printing_tag where card_id = 6 and printing_id = 1 and propagated_from = 1"), 1)
}

func TestSessionLostBetweenStageCAndPartitionIsMarkedByAnother(t *testing.T) {
	t.Parallel()
	r := setup(t, 10)
	r.during = func(batch int) {
		if batch == 2 {
			r.terminate(r.coordinator.BackendPID())
		}
	}
	_, err := r.stream()
	assert.ErrorContains(t, err, "batch 2: partition: ")
	failed, ok := errors.AsType[*dispatch.BatchError](err)
	assert.Assert(t, ok)
	assert.Equal(t, failed.State, ledger.Failed)
	assert.Equal(t, r.text("select status from pilot_run_ledger where run_id = 'run-a1-b0002'"), ledger.Failed)
	assert.Assert(t, strings.Contains(r.text("select failure_reason from pilot_run_ledger where status = 'failed'"), "partition: "))
	total, err := r.again()
	assert.NilError(t, err)
	assert.Equal(t, total.Extracted, 2, "the failed batch's evidence was kept")
	r.assertConverged(10)
}

func TestOwnersCloseLeavesTheRowRunningAndSaysSo(t *testing.T) {
	t.Parallel()
	r := setup(t, 10)
	r.during = func(int) { assert.NilError(t, r.coordinator.Close(t.Context())) }
	_, err := r.stream()
	assert.ErrorContains(t, err, "partition: session was closed by its owner; ledger-fail: row run-a1-b0001 stays running")
	assert.ErrorIs(t, err, session.ErrClosed)
	assert.Equal(t, r.count("pilot_run_ledger where status = 'running'"), 1)
	_, err = r.again()
	assert.NilError(t, err)
	r.assertConverged(10)
}

func TestLostSlotStopsTheBatchBeforeItVotes(t *testing.T) {
	t.Parallel()
	r := setup(t, 4)
	r.during = func(int) {
		pid, err := session.Value[int32](t.Context(), r.worker,
			"select pid from pg_stat_activity where application_name = 'conveyor/slot' and datname = current_database()")
		assert.NilError(t, err)
		r.terminate(uint32(pid))
	}
	_, err := r.stream()
	assert.ErrorIs(t, err, slot.ErrNotHeld)
	assert.Equal(t, r.count("card_printing_tag"), 0)
	assert.Equal(t, r.count("pilot_run_ledger where status = 'failed'"), 1)
	_, err = r.again()
	assert.NilError(t, err)
	r.assertConverged(4)
}

func TestNoFreeSlotIsARefusalWithoutARow(t *testing.T) {
	t.Parallel()
	r := setup(t, 4)
	r.cfg.Slots = 1
	held, err := slot.Acquire(t.Context(), r.cfg.Sessions, 1)
	assert.NilError(t, err)
	total, err := r.stream()
	assert.ErrorIs(t, err, dispatch.ErrThrottled)
	assert.Equal(t, total.Status, dispatch.Throttled)
	assert.Equal(t, r.count("pilot_run_ledger"), 0)
	assert.Equal(t, r.count("stage_e_throttle_counter where count = 2"), 1)
	assert.NilError(t, held.Release(t.Context()))
}

func TestInterruptedBatchIsFailedOnTheOriginalSession(t *testing.T) {
	t.Parallel()
	r := setup(t, 4)
	ctx, cancel := context.WithCancelCause(t.Context())
	r.during = func(int) { cancel(errors.New("interrupted")) }
	_, err := dispatch.New(r.cfg, r.coordinator, r).Stream(ctx)
	assert.Assert(t, err != nil)
	assert.Assert(t, !r.coordinator.Lost())
	assert.Equal(t, r.count("pilot_run_ledger where status = 'failed'"), 1)
}

func TestStreamInterruptedBetweenBatchesKeepsWhatIsDone(t *testing.T) {
	t.Parallel()
	r := setup(t, 8)
	ctx, cancel := context.WithCancelCause(t.Context())
	r.exec(`create function slowly() returns trigger language plpgsql as $$ begin perform pg_sleep(0.2); return null; end $$`)
	r.exec("create trigger slowly after insert on card_printing_tag execute function slowly()")
	r.during = func(int) {
		timer := time.AfterFunc(100*time.Millisecond, func() { cancel(errors.New("stop")) })
		t.Cleanup(func() { timer.Stop() })
	}
	total, err := dispatch.New(r.cfg, r.coordinator, r).Stream(ctx)
	assert.ErrorContains(t, err, "stop")
	assert.Equal(t, total.Status, dispatch.Stopped)
	assert.Equal(t, r.count("pilot_run_ledger where status = 'running'"), 0)
	assert.Assert(t, !r.coordinator.Lost())
	r.exec("drop trigger slowly on card_printing_tag")
	_, err = r.again()
	assert.NilError(t, err)
	r.assertConverged(8)
}

func TestNewVersionsReplaceVotesThatChangedAndKeepTheOthers(t *testing.T) {
	t.Parallel()
	r := setup(t, 4)
	_, err := r.stream()
	assert.NilError(t, err)
	r.exec("update printing set collector_number = '0' || collector_number || 'b' where id = 2")
	r.exec(`insert into printing (identifier, canonical_id, name, normal_name, set_code, collector_number)
		values (gen_random_uuid(), gen_random_uuid(), 'Card 2', 'card2', 'ABC', '2')`)
	r.cfg.Versions = map[string]string{"x": "2"}
	total, err := r.again()
	assert.NilError(t, err)
	assert.Equal(t, total.Already, 3)
	assert.Equal(t, total.Votes, 1)
	assert.Equal(t, r.count("archived_card_printing_tag where card_id = 2 and printing_id = 2 and superseded_by_run_id = 'run+'"), 1)
	assert.Equal(t, r.count("card_printing_tag"), 4)
}

func TestConcurrentStreamsOverOneCatalogueWriteOneSetOfVotes(t *testing.T) {
	t.Parallel()
	r := setup(t, 40)
	results := make(chan error)
	for _, run := range []string{"p", "q", "r"} {
		other := &rig{t: t, cfg: r.cfg, coordinator: open(t, r.cfg.Sessions, "coordinator"), worker: open(t, r.cfg.Sessions, "worker-2")}
		other.cfg.Run = run
		go func() {
			_, err := dispatch.New(other.cfg, other.coordinator, other).Stream(t.Context())
			results <- err
		}()
	}
	for range 3 {
		assert.NilError(t, <-results)
	}
	r.assertConverged(40)
}

func TestStreamStopsAtItsBound(t *testing.T) {
	t.Parallel()
	r := setup(t, 10)
	r.cfg.MaxBatches = 1
	total, err := r.stream()
	assert.NilError(t, err)
	assert.Equal(t, total.Status, dispatch.Bounded)
	assert.Equal(t, total.Batches, 1)
}
