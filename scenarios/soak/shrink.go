package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"deadwire/faults/schedule"
	"deadwire/harness/report"
	"deadwire/harness/verdict"
)

// ReproName is the file that a failure is shrunk to, in the run's folder.
const ReproName = "repro.yaml"

// Step is one try of shrinking.
type Step struct {
	Faults []string
	Failed bool // in the same way as the original
	Runs   int  // tried so far
}

// triesEach is how often a variant is tried before it counts as harmless: a
// failure that depends on the order of processes does not come every time.
const triesEach = 3

// shrinker tries ever smaller variants of a failing round.
type shrinker struct {
	soak *soak
	n    int
	want []string // signature of the failure
	runs int
}

// shrink makes a failing round smaller and writes what remains. The caller holds s.mu.
func (s *soak) shrink(ctx context.Context, n int, entries []schedule.Entry, failure *Failure) error {
	k := &shrinker{soak: s, n: n, want: signature(failure.Case)}
	small, err := k.smallest(ctx, entries)
	if errors.Is(err, errNotAgain) {
		return nil // said by the failure: it failed 0 times when tried again
	}
	if err != nil {
		return err
	}
	failure.After = len(small)
	for range triesEach {
		failed, err := k.fails(ctx, small, 1)
		if err != nil {
			return err
		}
		failure.Of++
		if failed {
			failure.Again++
		}
	}
	text, err := Text(s.Seed, s.Policy, n, small)
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

// smallest returns the smallest variant found that still fails in the same way.
func (k *shrinker) smallest(ctx context.Context, entries []schedule.Entry) ([]schedule.Entry, error) {
	again, err := k.fails(ctx, entries, triesEach)
	if err != nil {
		return nil, err
	}
	if !again {
		return nil, errNotAgain
	}
	for progress := true; progress; {
		progress = false
		for variant := range schedule.Shrink(entries) {
			if k.runs >= k.soak.ShrinkRuns || ctx.Err() != nil {
				return entries, nil
			}
			failed, err := k.fails(ctx, variant, triesEach)
			if err != nil {
				return nil, err
			}
			if failed {
				entries, progress = variant, true
				break
			}
		}
	}
	return entries, nil
}

// fails reports whether a variant fails in the same way, in one of so many tries.
func (k *shrinker) fails(ctx context.Context, entries []schedule.Entry, tries int) (bool, error) {
	for range tries {
		k.runs++
		c, err := k.soak.round(ctx, k.n, entries, k.runs)
		if err != nil {
			return false, err
		}
		failed := c.Verdict == verdict.Fail && overlap(k.want, signature(c))
		if k.soak.Shrunk != nil {
			k.soak.Shrunk(Step{Faults: kinds(entries), Failed: failed, Runs: k.runs})
		}
		if err := k.soak.drop(c); err != nil {
			return false, err
		}
		if failed {
			return true, nil
		}
		if ctx.Err() != nil {
			return false, nil
		}
	}
	return false, nil
}

// particular is what differs between two runs with the same failure.
var particular = regexp.MustCompile(`[0-9]+|"[^"]*"|\([^)]*\)`)

// signature returns what was wrong with a case, without its numbers: broken
// promises and unexpected rules by name, anything else by its first words.
func signature(c report.Case) []string {
	var signs []string
	for _, f := range c.Findings {
		if f.Invariant != "" {
			signs = append(signs, f.Invariant)
		}
	}
	for _, e := range c.Endings {
		if !e.Expected {
			signs = append(signs, e.Rule)
		}
	}
	for _, p := range c.Problems {
		words, _, _ := strings.Cut(strings.TrimPrefix(p, "resume: "), ":")
		signs = append(signs, particular.ReplaceAllString(words, ""))
	}
	return unique(signs)
}

// overlap reports whether two sorted lists share a word.
func overlap(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			if x == y {
				return true
			}
		}
	}
	return false
}
