package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"deadwire/pipeline/worker"
)

// start returns a pool whose processes are checked to be gone at the end of the test.
func start(t *testing.T, cfg worker.Config, options ...string) *worker.Pool {
	t.Helper()
	cfg.Command = append([]string{"", "worker-mode"}, options...)
	// under -race a process lingers for a second at its exit, to no use here
	cfg.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	pool, err := worker.Start(t.Context(), cfg)
	assert.NilError(t, err)
	t.Cleanup(func() {
		pids := pool.PIDs()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = pool.Close(ctx)
		assertGone(t, pids...)
	})
	return pool
}

func assertGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if pid != 0 {
			assert.Equal(t, syscall.Kill(pid, 0), syscall.ESRCH, "pid %d must be gone and reaped", pid)
		}
	}
}

func ids(n int, format string) iter.Seq[worker.Job] {
	return func(yield func(worker.Job) bool) {
		for i := range n {
			if !yield(worker.Job{ID: fmt.Sprintf(format, i)}) {
				return
			}
		}
	}
}

func one(t *testing.T, pool *worker.Pool, id string) worker.Result {
	t.Helper()
	ticket, err := pool.Submit(t.Context(), worker.Job{ID: id})
	assert.NilError(t, err)
	return ticket.Wait(t.Context())
}

func exitOf(t *testing.T, err error) *worker.ExitError {
	t.Helper()
	var exit *worker.ExitError
	assert.Assert(t, errors.As(err, &exit), "want an ExitError, got %v", err)
	return exit
}

func TestThousandJobsInSubmissionOrderWithinTheBound(t *testing.T) {
	t.Parallel()
	pool := start(t, worker.Config{Workers: 3})
	next, most := 0, 0
	err := pool.Run(t.Context(), ids(1000, "echo:%d"), func(r worker.Result) error {
		assert.NilError(t, r.Err)
		assert.Equal(t, r.Index, next)
		assert.Equal(t, string(r.Value), fmt.Sprintf(`"%d///0"`, next))
		most = max(most, pool.Pending())
		next++
		return nil
	})
	assert.NilError(t, err)
	assert.Equal(t, next, 1000)
	assert.Assert(t, most <= 6, "%d pending", most)
}

func TestJobCarriesArgumentsBodyAndSetup(t *testing.T) {
	t.Parallel()
	pool := start(t, worker.Config{Workers: 1, Setup: []byte("secret")})
	ticket, err := pool.Submit(t.Context(), worker.Job{
		ID: "echo:a", Args: json.RawMessage(`{"n":1}`), Body: bytes.Repeat([]byte{0}, 3<<20),
	})
	assert.NilError(t, err)
	r := ticket.Wait(t.Context())
	assert.NilError(t, r.Err)
	assert.Equal(t, string(r.Value), `"a/{\"n\":1}/secret/3145728"`)
	_, err = pool.Submit(t.Context(), worker.Job{ID: "echo:b", Args: json.RawMessage(`{`)})
	assert.ErrorContains(t, err, "not JSON")
}

func TestWorkersAreNumberedProcessesOfTheirOwn(t *testing.T) {
	t.Parallel()
	pool := start(t, worker.Config{Workers: 3})
	pids := pool.PIDs()
	assert.Equal(t, len(pids), 3)
	assert.NilError(t, pool.Run(t.Context(), ids(30, "who:%d"), func(r worker.Result) error {
		var who [2]int
		assert.NilError(t, json.Unmarshal(r.Value, &who))
		assert.Equal(t, pids[who[0]-1], who[1])
		assert.Assert(t, who[1] != os.Getpid())
		return nil
	}))
}

func TestJobErrorLeavesTheWorkerAlive(t *testing.T) {
	t.Parallel()
	pool := start(t, worker.Config{Workers: 1})
	pid := pool.PIDs()[0]
	var failed *worker.JobError
	assert.Assert(t, errors.As(one(t, pool, "error:7").Err, &failed))
	assert.DeepEqual(t, *failed, worker.JobError{
		Worker: 1, PID: pid, Job: "error:7", Kind: "worker_test.jobTypeError", Message: "look up 7: no such card",
	})
	assert.ErrorContains(t, one(t, pool, "notjson").Err, "not JSON")
	assert.NilError(t, one(t, pool, "echo:x").Err)
	assert.DeepEqual(t, pool.PIDs(), []int{pid})
}

func TestKilledWorkerFailsEveryPendingJobAndHealMendsThePool(t *testing.T) {
	t.Parallel()
	pool := start(t, worker.Config{Workers: 2})
	before := pool.PIDs()
	started := filepath.Join(t.TempDir(), "started")
	var tickets []*worker.Ticket
	for _, id := range []string{"hang:" + started, "until:" + started, "echo:1", "echo:2"} {
		ticket, err := pool.Submit(t.Context(), worker.Job{ID: id})
		assert.NilError(t, err)
		tickets = append(tickets, ticket)
	}
	// the survivor has done all it can once one job is left
	poll.WaitOn(t, func(poll.LogT) poll.Result { return check(pool.Pending(), 1) })
	victim := before[hanging(t, pool)]
	assert.NilError(t, syscall.Kill(victim, syscall.SIGKILL))

	exit := exitOf(t, tickets[0].Wait(t.Context()).Err)
	assert.Equal(t, exit.PID, victim)
	assert.Equal(t, exit.Signal, syscall.SIGKILL)
	assert.Equal(t, exit.Code, -1)
	assert.Equal(t, exit.Job, "hang:"+started)
	assert.Equal(t, exit.Error(), fmt.Sprintf("worker %d (pid %d) killed by SIGKILL", exit.Worker, victim))

	_, err := pool.Submit(t.Context(), worker.Job{ID: "echo:3"})
	var broken *worker.BrokenError
	assert.Assert(t, errors.As(err, &broken), "a broken pool refuses until it is healed: %v", err)

	assert.NilError(t, pool.Heal(t.Context()))
	assert.NilError(t, one(t, pool, "echo:4").Err)
	assert.Equal(t, survivors(before, pool.PIDs()), 1, "Heal replaces the dead only")
	assertGone(t, victim)
}

func check(got, want int) poll.Result {
	if got == want {
		return poll.Success()
	}
	return poll.Continue("%d, want %d", got, want)
}

func survivors(before, after []int) (n int) {
	for i := range before {
		if before[i] == after[i] {
			n++
		}
	}
	return n
}

// hanging is the index of the worker that a job was not given back by: the other one answers
func hanging(t *testing.T, pool *worker.Pool) int {
	t.Helper()
	var who [2]int
	r := one(t, pool, "who")
	assert.NilError(t, r.Err)
	assert.NilError(t, json.Unmarshal(r.Value, &who))
	return 2 - who[0]
}

func TestDeathFailsWhatOthersHaveInHandToo(t *testing.T) {
	t.Parallel()
	pool := start(t, worker.Config{Workers: 2})
	dir := t.TempDir()
	release := filepath.Join(dir, "release")
	slow, err := pool.Submit(t.Context(), worker.Job{ID: "until:" + release})
	assert.NilError(t, err)
	assert.Equal(t, exitOf(t, one(t, pool, "exit").Err).Code, 7)
	assert.Equal(t, exitOf(t, slow.Wait(t.Context()).Err).Code, 7)

	short, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, pool.Heal(short), context.DeadlineExceeded, "a survivor still works for the failed batch")
	assert.NilError(t, os.WriteFile(release, nil, 0o600))
	assert.NilError(t, pool.Heal(t.Context()))
	assert.NilError(t, pool.Run(t.Context(), ids(20, "echo:%d"), func(r worker.Result) error { return r.Err }))
}

func TestDeathOfAnIdleWorkerIsNoticed(t *testing.T) {
	t.Parallel()
	pool := start(t, worker.Config{Workers: 2})
	assert.NilError(t, syscall.Kill(pool.PIDs()[1], syscall.SIGTERM))
	poll.WaitOn(t, func(poll.LogT) poll.Result { return check(pool.PIDs()[1], 0) })
	_, err := pool.Submit(t.Context(), worker.Job{ID: "echo:1"})
	assert.Equal(t, exitOf(t, err).Signal, syscall.SIGTERM)
	assert.NilError(t, pool.Heal(t.Context()))
	assert.NilError(t, one(t, pool, "echo:1").Err)
}

func TestUnaskedEndings(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, job, want string }{
		{"panic is exit code 2 with its first line", "panic:c1", "exited with code 2: panic: compute blew up on c1"},
		{"exit keeps its code", "exit", "exited with code 7"},
		{"stray output ends the worker", "garble", "killed by SIGKILL: unreadable answer"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pool := start(t, worker.Config{Workers: 1, JobTimeout: 5 * time.Second})
			assert.ErrorContains(t, one(t, pool, tc.job).Err, tc.want)
		})
	}
}

func TestFrozenWorkerIsKilledAfterTheJobTimeout(t *testing.T) {
	t.Parallel()
	pool := start(t, worker.Config{Workers: 1, JobTimeout: 100 * time.Millisecond})
	assert.NilError(t, syscall.Kill(pool.PIDs()[0], syscall.SIGSTOP))
	ticket, err := pool.Submit(t.Context(), worker.Job{ID: "echo:1", Body: make([]byte, 1<<20)})
	assert.NilError(t, err)
	exit := exitOf(t, ticket.Wait(t.Context()).Err)
	assert.Equal(t, exit.Signal, syscall.SIGKILL)
	assert.Assert(t, exit.Reason != "", "the pool says that it was its own doing")
}

func TestRecycleReplacesAWorkerInOrder(t *testing.T) {
	t.Parallel()
	var log safeBuffer
	pool := start(t, worker.Config{Workers: 1, RecycleAfter: 3, Stderr: &log})
	seen := map[int]int{}
	assert.NilError(t, pool.Run(t.Context(), ids(9, "who:%d"), func(r worker.Result) error {
		var who [2]int
		assert.NilError(t, json.Unmarshal(r.Value, &who))
		seen[who[1]]++
		return r.Err
	}))
	assert.Equal(t, len(seen), 3)
	for pid, jobs := range seen {
		assert.Equal(t, jobs, 3, "pid %d", pid)
	}
	poll.WaitOn(t, func(poll.LogT) poll.Result { return check(strings.Count(log.String(), "leaves"), 3) })
}

func TestRunStopsAtTheFirstErrorAndDrains(t *testing.T) {
	t.Parallel()
	pool := start(t, worker.Config{Workers: 2})
	stop := errors.New("enough")
	delivered := 0
	err := pool.Run(t.Context(), ids(100, "echo:%d"), func(worker.Result) error {
		if delivered++; delivered == 5 {
			return stop
		}
		return nil
	})
	assert.ErrorIs(t, err, stop)
	assert.Equal(t, delivered, 5)
	assert.Equal(t, pool.Pending(), 0)
}

func TestRunDeliversTheDeathInOrder(t *testing.T) {
	t.Parallel()
	pool := start(t, worker.Config{Workers: 2})
	jobs := func(yield func(worker.Job) bool) {
		for _, id := range []string{"echo:0", "echo:1", "exit", "echo:3", "echo:4", "echo:5", "echo:6", "echo:7", "echo:8"} {
			if !yield(worker.Job{ID: id}) {
				return
			}
		}
	}
	err := pool.Run(t.Context(), jobs, func(r worker.Result) error { return r.Err })
	assert.Equal(t, exitOf(t, err).Code, 7)
	assert.Assert(t, exitOf(t, err).Stderr[0] != "")
}

func TestContextEndsRunWithoutWaitingForTheJob(t *testing.T) {
	t.Parallel()
	pool := start(t, worker.Config{Workers: 1})
	started := filepath.Join(t.TempDir(), "started")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_ = waitForFile(started)
		cancel()
	}()
	err := pool.Run(ctx, ids(1, "hang:"+started+"%.0d"), func(r worker.Result) error { return r.Err })
	assert.ErrorIs(t, err, context.Canceled)
	_, err = pool.Submit(ctx, worker.Job{ID: "echo:1"})
	if err != nil { // either refused by ctx, or accepted and cancelled while waiting: never stuck
		assert.ErrorIs(t, err, context.Canceled)
	}
	gone, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	assert.ErrorContains(t, pool.Close(gone), "killed by SIGKILL: pool was closed and could not wait longer")
}

func TestClose(t *testing.T) {
	t.Parallel()
	pool := start(t, worker.Config{Workers: 2})
	pids := pool.PIDs()
	assert.NilError(t, pool.Close(t.Context()))
	assertGone(t, pids...)
	assert.NilError(t, pool.Close(t.Context()), "closing twice is harmless")
	_, err := pool.Submit(t.Context(), worker.Job{ID: "echo:1"})
	assert.ErrorIs(t, err, worker.ErrClosed)
	assert.ErrorIs(t, pool.Heal(t.Context()), worker.ErrClosed)
}

func TestCloseFailsWhatIsPending(t *testing.T) {
	t.Parallel()
	pool := start(t, worker.Config{Workers: 1})
	release := filepath.Join(t.TempDir(), "release")
	ticket, err := pool.Submit(t.Context(), worker.Job{ID: "until:" + release})
	assert.NilError(t, err)
	closed := make(chan error)
	go func() { closed <- pool.Close(t.Context()) }()
	assert.ErrorIs(t, ticket.Wait(t.Context()).Err, worker.ErrClosed)
	assert.NilError(t, os.WriteFile(release, nil, 0o600))
	assert.NilError(t, <-closed)
}

func TestWorkerThatWillNotLeaveIsKilled(t *testing.T) {
	t.Parallel()
	pool := start(t, worker.Config{Workers: 1, ExitTimeout: 50 * time.Millisecond}, "hang-in-close")
	assert.ErrorContains(t, pool.Close(t.Context()), "did not leave within 50ms")
}

func TestStartReportsWhatWentWrong(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, option string
		limit        time.Duration
		want         string
	}{
		{"a handler that refuses", "refuse", 0, "could not start: build lexicon: no such card"},
		{"a process that dies", "die-in-init", 0, "exited with code 2: panic: no init today"},
		{"a process that never gets ready", "hang-in-init", 300 * time.Millisecond, "no answer within 300ms"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := worker.Start(t.Context(), worker.Config{
				Command: []string{"", "worker-mode", tc.option}, Workers: 2, StartTimeout: tc.limit,
			})
			if tc.option == "refuse" {
				assert.Assert(t, errors.As(err, new(*worker.InitError)))
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
	_, err := worker.Start(t.Context(), worker.Config{Command: []string{"/no/such/program"}})
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// safeBuffer is a bytes.Buffer for several goroutines
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
