package sweep_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"deadwire/pipeline/schema/schematest"
	"deadwire/pipeline/session"
	"deadwire/pipeline/sweep"
)

func TestMain(m *testing.M) { os.Exit(schematest.Main(m)) }

// catalogue has cards 1 to n, of which every step-th is eligible.
func catalogue(n, step int64) sweep.Read {
	return func(_ context.Context, position int64, limit int) ([]sweep.Candidate, error) {
		var chunk []sweep.Candidate
		for id := position + 1; id <= n && len(chunk) < limit; id++ {
			chunk = append(chunk, sweep.Candidate{ID: id, Eligible: id%step == 0})
		}
		return chunk, nil
	}
}

func walker(t *testing.T, url, cursor string, read sweep.Read) *sweep.Walker {
	t.Helper()
	s, err := session.Open(t.Context(), session.Config{URL: url, Timeout: time.Minute}, "coordinator")
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, s.Close(context.Background())) })
	return &sweep.Walker{Session: s, Cursor: cursor, Read: read}
}

// lap claims until the cursor wraps.
func lap(ctx context.Context, w *sweep.Walker, limit int) ([]int64, error) {
	var all []int64
	for {
		found, err := w.Claim(ctx, limit)
		all = append(all, found.IDs...)
		if err != nil || found.Wrapped {
			return all, err
		}
	}
}

func TestALapReturnsEveryEligibleCardOnceHoweverSmallTheClaims(t *testing.T) {
	t.Parallel()
	w := walker(t, schematest.Database(t), sweep.StageC, catalogue(1100, 3))
	for _, limit := range []int{1000, 25, 7} {
		all, err := lap(t.Context(), w, limit)
		assert.NilError(t, err)
		assert.Equal(t, len(all), 366, "limit %d", limit)
		assert.Assert(t, slices.IsSorted(all))
	}
	wraps, err := session.Value[int64](t.Context(), w.Session, "select wrap_count from stage_e_sweep_cursor where name = 'stage_c' and position = 0")
	assert.NilError(t, err)
	assert.Equal(t, wraps, int64(3))
}

func TestADenseBacklogIsClaimedOnlyAsFarAsItIsTaken(t *testing.T) {
	t.Parallel()
	w := walker(t, schematest.Database(t), sweep.StageD, catalogue(250, 1))
	found, err := w.Claim(t.Context(), 25)
	assert.NilError(t, err)
	assert.Equal(t, found.IDs[24], int64(25))
	found, err = w.Claim(t.Context(), 25)
	assert.NilError(t, err)
	assert.Equal(t, found.IDs[0], int64(26), "nothing between two claims is lost")
}

func TestOneClaimScansABoundedNumberOfCards(t *testing.T) {
	t.Parallel()
	looked := 0
	read := catalogue(1_000_000, 2_000_000)
	w := walker(t, schematest.Database(t), sweep.StageC, func(ctx context.Context, position int64, limit int) ([]sweep.Candidate, error) {
		chunk, err := read(ctx, position, limit)
		looked += len(chunk)
		return chunk, err
	})
	found, err := w.Claim(t.Context(), 25)
	assert.NilError(t, err)
	assert.Equal(t, len(found.IDs), 0)
	assert.Assert(t, !found.Wrapped)
	assert.Equal(t, looked, 1000)
}

func TestWalkersOfOneCursorGetDisjointCards(t *testing.T) {
	t.Parallel()
	url := schematest.Database(t)
	var mu sync.Mutex
	var all []int64
	var walking sync.WaitGroup
	for range 4 {
		w := walker(t, url, sweep.StageC, catalogue(3000, 2))
		walking.Go(func() {
			for { // until some walker's claim reaches the end, the lap is the first one
				mu.Lock()
				over := len(all) >= 1500
				mu.Unlock()
				if over {
					return
				}
				found, err := w.Claim(t.Context(), 25)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				all = append(all, found.IDs...)
				mu.Unlock()
				if found.Wrapped {
					return
				}
			}
		})
	}
	walking.Wait()
	slices.Sort(all)
	first := slices.Compact(slices.Clone(all))
	assert.Equal(t, len(first), 1500, "a lap misses nobody")
	// Only cards behind a wrap may come again, and those come in order from the start.
	wraps, err := session.Value[int64](t.Context(), walker(t, url, sweep.StageC, nil).Session, "select wrap_count from stage_e_sweep_cursor where name = 'stage_c'")
	assert.NilError(t, err)
	if wraps <= 1 {
		position, err := session.Value[int64](t.Context(), walker(t, url, sweep.StageC, nil).Session, "select position from stage_e_sweep_cursor where name = 'stage_c'")
		assert.NilError(t, err)
		assert.Equal(t, len(all)-1500, int(position/2), "cards of the second lap are those behind the cursor")
	}
}

func TestEmptinessNeedsAWholeLapWithoutAFind(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var lap sweep.Lap
		clean, wrapped := true, false // since the last wrap; any wrap yet
		for _, step := range rapid.SliceOf(rapid.Custom(func(t *rapid.T) sweep.Found {
			return sweep.Found{IDs: make([]int64, rapid.IntRange(0, 1).Draw(t, "found")), Wrapped: rapid.Bool().Draw(t, "wrapped")}
		})).Draw(t, "steps") {
			lap.Observe(step)
			clean = clean && len(step.IDs) == 0
			if step.Wrapped {
				assert.Equal(t, lap.Proven(), wrapped && clean)
				wrapped, clean = true, true
			} else if len(step.IDs) > 0 {
				assert.Assert(t, !lap.Proven())
			}
		}
	})
}
