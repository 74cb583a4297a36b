package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"deadwire/harness/report"
	"deadwire/harness/verdict"
)

// ReproName is the file that a failure is shrunk to, in the run's folder.
const ReproName = "repro.yaml"

// Step is one variant that shrinking tried.
type Step struct {
	Round     Round
	Fails, Of int  // how often it failed in the same way
	Kept      bool // shrinking goes on from it
	Runs      int  // spent so far
}

const (
	// triesEach is how often a variant is tried: a failure that depends on the order
	// of processes does not come every time.
	triesEach = 3
	// triesMore is how often a failure that did not come again is tried beyond that.
	triesMore = 6
	// triesLast is how often what remains is tried, to tell how sure it is.
	triesLast = 10
)

// shrinker tries ever smaller variants of a failing round.
type shrinker struct {
	soak *soak
	run  func(ctx context.Context, round Round, try int) (report.Case, error)
	want []string // signature of the failure
	need int      // of triesEach that must fail: as many as of the round itself
	runs int
	// most and ends bound the runs and the time.
	most int
	ends time.Time
}

// shrink makes a failing round smaller and writes what remains. What did not fail
// again is written as it was, with the rate that was seen.
func (s *soak) shrink(ctx context.Context, round Round, failure *Failure) error {
	k := &shrinker{soak: s, run: s.round, want: signature(failure.Case), most: s.ShrinkRuns, ends: time.Now().Add(s.shrinkFor())}
	if err := k.shrink(ctx, round, failure); err != nil {
		return err
	}
	text, err := Text(s.Seed, failure.Small)
	if err != nil {
		return err
	}
	path := filepath.Join(s.Dir, ReproName)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", ReproName, err)
	}
	failure.Repro = path
	return nil
}

// shrink finds out how often the round fails, and then what is left of it.
func (k *shrinker) shrink(ctx context.Context, round Round, failure *Failure) error {
	failure.Small = round
	err := k.reproduce(ctx, round, failure)
	if err == nil && k.need > 0 {
		failure.Small, err = k.smallest(ctx, round, failure)
	}
	failure.Runs = k.runs
	return err
}

// reproduce finds out how often the round fails when it is run again.
func (k *shrinker) reproduce(ctx context.Context, round Round, failure *Failure) (err error) {
	if failure.Again, failure.Of, err = k.fails(ctx, round, triesEach, 0); err != nil {
		return err
	}
	k.need = failure.Again
	if k.need == 0 {
		again, of, err := k.fails(ctx, round, triesMore, 1)
		failure.Again, failure.Of, k.need = failure.Again+again, failure.Of+of, again
		return err
	}
	return nil
}

// smallest returns the smallest variant that fails as reliably as the round did.
func (k *shrinker) smallest(ctx context.Context, round Round, failure *Failure) (Round, error) {
	kept := []Round{round}
	refused := map[string]bool{}
	candidates := slices.Collect(round.smaller())
	for progress := true; progress; {
		progress = false // what was refused before may do after another step
		for at := 0; at < len(candidates) && !k.over(ctx); {
			failed, err := k.accepts(ctx, candidates[at], refused)
			if err != nil {
				return round, err
			}
			if !failed {
				at++
				continue
			}
			kept, progress = append(kept, candidates[at]), true
			candidates = slices.Collect(candidates[at].smaller()) // the next one has taken its place
		}
	}
	return k.confirmed(ctx, kept, failure)
}

// confirmed goes back from the smallest of the kept rounds to the first that fails
// as often in a longer series too. Where there is none, or no time to find it, that
// is the one that failed most often in its series, if it did more often than not,
// and else the round itself. The series have half of the budget to themselves.
func (k *shrinker) confirmed(ctx context.Context, kept []Round, failure *Failure) (Round, error) {
	k.most += k.most / 2
	k.ends = k.ends.Add(k.soak.shrinkFor() / 2)
	best, most, tried := kept[0], 0, triesLast
	for n := len(kept) - 1; n > 0 && (n == len(kept)-1 || !k.over(ctx)); n-- {
		need := (triesLast*k.need + triesEach - 1) / triesEach
		again, of, err := k.fails(ctx, kept[n], triesLast, need)
		if err != nil {
			return best, err
		}
		if again >= need {
			failure.Again, failure.Of = again, of
			return kept[n], nil
		}
		if again*tried > most*of {
			best, most, tried = kept[n], again, of
		}
	}
	if most*2 <= tried {
		return kept[0], nil
	}
	failure.Again, failure.Of = most, tried
	return best, nil
}

// accepts tries a variant until it is certain whether it fails often enough.
func (k *shrinker) accepts(ctx context.Context, variant Round, refused map[string]bool) (bool, error) {
	text, err := Text(k.soak.Seed, variant)
	if err != nil {
		return false, err
	}
	if _, _, err := Parse(text); err != nil || refused[text] {
		return false, nil // there can be no such round, or it is known
	}
	again, _, err := k.fails(ctx, variant, triesEach, k.need)
	refused[text] = again < k.need
	return again >= k.need, err
}

// over says that the budget is spent.
func (k *shrinker) over(ctx context.Context) bool {
	return ctx.Err() != nil || k.runs >= k.most || time.Now().After(k.ends)
}

// fails counts how often a round fails in the same way. It ends early when need of
// them did, or when so many cannot be reached any more; need 0 runs all.
func (k *shrinker) fails(ctx context.Context, round Round, tries, need int) (again, of int, err error) {
	for of < tries && ctx.Err() == nil {
		failed, err := k.together(ctx, round, min(max(1, k.soak.Parallel), tries-of))
		if err != nil {
			return again, of, err
		}
		of += len(failed)
		for _, f := range failed {
			if f {
				again++
			}
		}
		if need > 0 && (again >= need || again+tries-of < need) {
			break
		}
	}
	if k.soak.Shrunk != nil {
		k.soak.Shrunk(Step{Round: round, Fails: again, Of: of, Kept: again > 0 && again >= need, Runs: k.runs})
	}
	return again, of, nil
}

// together runs a round so many times at once, as the soak did, and says of each
// whether it failed in the same way. What the end of ctx cut short is left out.
func (k *shrinker) together(ctx context.Context, round Round, times int) ([]bool, error) {
	cases := make([]report.Case, times)
	var group errgroup.Group
	for n := range cases {
		k.runs++
		try := k.runs
		group.Go(func() (err error) {
			cases[n], err = k.run(ctx, round, try)
			return err
		})
	}
	err := group.Wait()
	var failed []bool
	for _, c := range cases {
		if ctx.Err() == nil {
			failed = append(failed, c.Verdict == verdict.Fail && overlap(k.want, signs(c)))
		}
		err = errors.Join(err, k.soak.drop(c))
	}
	return failed, err
}
