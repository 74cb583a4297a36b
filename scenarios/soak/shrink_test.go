package soak

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/faults/schedule"
	"deadwire/harness/report"
	"deadwire/harness/verdict"
)

func TestASignatureForgetsWhatDiffersBetweenRuns(t *testing.T) {
	t.Parallel()
	one := report.Case{Problems: []string{
		"resume: the subject fails (exit code 1), expected: completes",
		"unexpected ending of session 7 (worker-2): process.died: the kernel closed it: pid 4711",
		"the ledger says what became of each batch: run-17 still says RUNNING",
		"fault fork did not bite: it was injected, but nothing shows that it acted",
	}}
	assert.DeepEqual(t, signature(one), []string{"process.died of worker-#", "the ledger says what became of each batch"})
	assert.DeepEqual(t, signs(one), []string{"process.died of worker-#", "the ledger says what became of each batch", "the subject fails , expected"})
	other := report.Case{Problems: []string{"unexpected ending of session 2 (worker-1): network.reset: by peer"}}
	assert.Assert(t, !overlap(signature(one), signs(other)))
	plain := report.Case{Problems: []string{"the subject fails (exit code 2), expected: completes"}}
	assert.Assert(t, overlap(signature(plain), signs(one)), "how it ended is all there is to go by")
}

// failing is a subject that fails at a rate when a condition holds.
func failing(rate float64, when func(Round) bool) func(context.Context, Round, int) (report.Case, error) {
	return func(_ context.Context, r Round, try int) (report.Case, error) {
		chance := rand.New(rand.NewPCG(uint64(try), 1)).Float64()
		if when(r) && chance < rate {
			return report.Case{Verdict: verdict.Fail, Problems: []string{"a promise: broken"}}, nil
		}
		return report.Case{Verdict: verdict.Pass}, nil
	}
}

func shrunk(t *testing.T, round Round, most int, run func(context.Context, Round, int) (report.Case, error)) (Failure, []Step) {
	t.Helper()
	var steps []Step
	s := &soak{Config: Config{Seed: "seed", Shrunk: func(step Step) { steps = append(steps, step) }}}
	k := &shrinker{soak: s, run: run, want: []string{"a promise"}, most: most, ends: time.Now().Add(time.Hour)}
	var failure Failure
	assert.NilError(t, k.shrink(t.Context(), round, &failure))
	return failure, steps
}

// large returns a round of a seed with three faults, of which one is a cut.
func large(t *testing.T) Round {
	t.Helper()
	policy := Policy{Redo: 1}
	for n := 1; n < 500; n++ {
		if r := Nth("seed", policy, n); len(r.Faults) == 3 && cuts(r) == 1 {
			return r
		}
	}
	t.Fatal("the seed has no such round")
	return Round{}
}

func cuts(r Round) (n int) {
	for _, e := range r.Faults {
		if e.Fault.Name() == "network.cut" {
			n++
		}
	}
	return n
}

func TestShrinkingLeavesWhatTheFailureNeeds(t *testing.T) {
	t.Parallel()
	failure, steps := shrunk(t, large(t), 1000, failing(1, func(r Round) bool { return cuts(r) == 1 && r.Work.Cards >= 5 && !r.Once }))
	small := failure.Small
	assert.Equal(t, len(small.Faults), 1)
	assert.Equal(t, cuts(small), 1)
	assert.Equal(t, small.Work.Cards, 5)
	assert.Equal(t, small.Work.Batch, 5)
	assert.Equal(t, small.Work.Workers, 1)
	assert.Assert(t, !small.Work.Redo && !small.Once)
	assert.Equal(t, failure.Again, failure.Of)
	assert.Assert(t, slices.ContainsFunc(steps, func(s Step) bool { return s.Kept }))
}

func TestNothingIsLeftOfAFailureWithoutCause(t *testing.T) {
	t.Parallel()
	failure, _ := shrunk(t, large(t), 1000, failing(1, func(Round) bool { return true }))
	assert.DeepEqual(t, failure.Small, Round{N: failure.Small.N, Faults: []schedule.Entry{}, Once: true, Work: Work{Cards: 1, Workers: 1, Batch: 1, Dispatchers: 1, Seed: failure.Small.Work.Seed}})
}

func TestWhatDoesNotFailAgainStaysAsItIs(t *testing.T) {
	t.Parallel()
	round := large(t)
	failure, _ := shrunk(t, round, 1000, failing(0, func(Round) bool { return true }))
	assert.Equal(t, failure.Small.String(), round.String())
	assert.Equal(t, failure.Again, 0)
	assert.Equal(t, failure.Of, triesEach+triesMore)
}

// A variant that fails now and then only must not replace a round that always does.
func TestALessReliableVariantIsNotKept(t *testing.T) {
	t.Parallel()
	always, seldom := failing(1, func(r Round) bool { return len(r.Faults) == 3 }), failing(0.5, func(r Round) bool { return len(r.Faults) < 3 })
	failure, _ := shrunk(t, large(t), 1000, func(ctx context.Context, r Round, try int) (report.Case, error) {
		if c, err := always(ctx, r, try); c.Verdict == verdict.Fail {
			return c, err
		}
		return seldom(ctx, r, try)
	})
	assert.Equal(t, len(failure.Small.Faults), 3)
	assert.Equal(t, failure.Again, failure.Of)
}

func TestShrinkingKeepsToItsBudget(t *testing.T) {
	t.Parallel()
	failure, _ := shrunk(t, large(t), 20, failing(1, func(Round) bool { return true }))
	assert.Assert(t, failure.Runs <= 20+triesEach+triesLast, "%d", failure.Runs)
}
