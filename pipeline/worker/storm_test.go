package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/worker"
)

// Whatever dies, and whenever: a batch ends, in order, with the death as its
// reason; the pool heals; and the next batch is whole.
func TestStormOfKills(t *testing.T) {
	t.Parallel()
	const rounds, jobs = 25, 60
	pool := start(t, worker.Config{Workers: 3, RecycleAfter: 17})
	random := rand.New(rand.NewPCG(1, 2))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	bitten := 0
	for round := range rounds {
		at, victim := random.IntN(jobs), random.IntN(3)
		signal := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGABRT}[random.IntN(3)]
		err := batch(ctx, t, pool, jobs, func(next int) {
			if pid := pool.PIDs()[victim]; next == at && pid != 0 {
				_ = syscall.Kill(pid, signal) // it may have left meanwhile
			}
		})
		if err != nil {
			exit := exitOf(t, err)
			assert.Assert(t, exit.Signal == signal || exit.Code == 2, "round %d: %v", round, exit)
			bitten++
		}
		assert.NilError(t, pool.Heal(ctx))
	}
	assert.Assert(t, bitten > rounds/2, "only %d of %d kills were felt", bitten, rounds)
	// a death between batches may be noticed only now; after that there is none left
	if err := batch(ctx, t, pool, jobs, func(int) {}); err != nil {
		assert.Assert(t, errors.As(err, new(*worker.ExitError)))
		assert.NilError(t, pool.Heal(ctx))
		assert.NilError(t, batch(ctx, t, pool, jobs, func(int) {}))
	}
	for _, pid := range pool.PIDs() {
		assert.Assert(t, pid != 0)
	}
}

// batch runs n jobs and calls meanwhile before each is submitted
func batch(ctx context.Context, t *testing.T, pool *worker.Pool, n int, meanwhile func(next int)) error {
	t.Helper()
	delivered := 0
	err := pool.Run(ctx, func(yield func(worker.Job) bool) {
		for i := range n {
			meanwhile(i)
			if !yield(worker.Job{ID: fmt.Sprintf("echo:%d", i), Body: make([]byte, 100_000)}) {
				return
			}
		}
	}, func(r worker.Result) error {
		if r.Err != nil {
			return r.Err
		}
		assert.Equal(t, r.Index, delivered)
		assert.Equal(t, string(r.Value), fmt.Sprintf(`"%d///100000"`, delivered))
		delivered++
		return nil
	})
	if err == nil {
		assert.Equal(t, delivered, n)
	}
	return err
}

// A job's way there and back, with an image of usual size.
func BenchmarkRoundTrip(b *testing.B) {
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers-%d", workers), func(b *testing.B) {
			pool, err := worker.Start(b.Context(), worker.Config{Command: []string{"", "worker-mode"}, Workers: workers})
			assert.NilError(b, err)
			body := make([]byte, 64<<10)
			b.SetBytes(int64(len(body)))
			err = pool.Run(b.Context(), func(yield func(worker.Job) bool) {
				for b.Loop() {
					if !yield(worker.Job{ID: "nothing", Body: body}) {
						return
					}
				}
			}, func(r worker.Result) error { return r.Err })
			assert.NilError(b, err)
			assert.NilError(b, pool.Close(context.Background()))
		})
	}
}
