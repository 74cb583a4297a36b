package soak

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"deadwire/faults/schedule"
	"deadwire/harness/report"
	"deadwire/harness/verdict"
	"deadwire/scenarios"
)

// Config says what to soak, how long, and with what. Runner is required.
type Config struct {
	Runner *scenarios.Runner
	Seed   string
	Policy Policy
	// For bounds the time in which rounds begin; Rounds their number, 0 for no bound.
	For    time.Duration
	Rounds int
	// First is the number of the first round, from 1: a round is the same whatever
	// came before it, so a soak that was broken off goes on with the next.
	First int
	// Parallel is how many rounds run at once.
	Parallel int
	// KeepGoing goes on after a failure, and shrinks nothing.
	KeepGoing bool
	// ShrinkRuns bounds the runs that shrinking may cost; 0 shrinks nothing.
	ShrinkRuns int
	// ShrinkFor bounds the time that shrinking may take; 0 stands for ten minutes.
	ShrinkFor time.Duration
	// Dir is the run's folder. The folder of a round that passed is removed.
	Dir string
	// Done is called after each round, never twice at once.
	Done func(Outcome)
	// Shrunk is called after each try of shrinking.
	Shrunk func(Step)
}

// Outcome is what a round came to.
type Outcome struct {
	N     int
	Kinds []string // of the faults that it had
	Case  report.Case
	Tally Tally // so far
}

// Result is what a soak came to.
type Result struct {
	Tally  *Tally
	Next   int // number of the round to go on with
	Failed []Failure
	// Missed are the thresholds that do not hold, with the number that was measured.
	Missed []string
	// Lacking is what the machine lacked; the soak ended for it.
	Lacking error
}

// Failure is a round that broke a promise.
type Failure struct {
	N     int
	Case  report.Case
	Repro string // path of repro.yaml, "" when nothing was shrunk
	// Round failed; Small is what remains of it after Runs runs.
	Round, Small Round
	Runs         int
	// Again and Of say how often what remains failed when it was tried.
	Again, Of int
}

// Verdict returns fail before undetermined before pass. A soak in which nothing
// acted proves nothing.
func (r Result) Verdict() verdict.Verdict {
	switch {
	case len(r.Failed) > 0 || len(r.Missed) > 0:
		return verdict.Fail
	case r.Lacking != nil || r.Tally.bitten() == 0:
		return verdict.Undetermined
	default:
		return verdict.Pass
	}
}

// soak is one under way.
type soak struct {
	Config
	mu     sync.Mutex
	next   int
	result Result
	stop   bool
}

// Run soaks until the time or the rounds are over, ctx ends, a round fails, or the
// machine lacks something. The error says what deadwire itself could not do.
func Run(ctx context.Context, cfg Config) (Result, error) {
	s := &soak{Config: cfg, next: max(1, cfg.First)}
	s.result.Tally = newTally()
	if err := s.Policy.Check(); err != nil {
		return s.result, err
	}
	ends := time.Now().Add(cfg.For)
	var group errgroup.Group
	for range max(1, cfg.Parallel) {
		group.Go(func() error { return s.rounds(ctx, ends) })
	}
	err := group.Wait()
	s.result.Next = s.next
	for _, c := range s.Policy.conditions {
		if value := s.result.Tally.Number(c.metric); !c.holds(value) {
			s.result.Missed = append(s.result.Missed, fmt.Sprintf("%s: it is %.3g", c.text, value))
		}
	}
	s.result.Missed = append(s.result.Missed, s.result.Tally.leaks()...)
	return s.result, err
}

// rounds runs one round after the other. One that the end of ctx cut short is
// not counted.
func (s *soak) rounds(ctx context.Context, ends time.Time) error {
	for {
		n, ok := s.take(ctx, ends)
		if !ok {
			return nil
		}
		round := Nth(s.Seed, s.Policy, n)
		c, err := s.round(ctx, round, 0)
		if err != nil {
			return err
		}
		if ctx.Err() != nil && c.Verdict != verdict.Pass {
			return nil
		}
		if err := s.count(ctx, round, c); err != nil {
			return err
		}
	}
}

func (s *soak) take(ctx context.Context, ends time.Time) (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := max(1, s.First)
	if s.stop || ctx.Err() != nil || !time.Now().Before(ends) || (s.Rounds > 0 && s.next >= first+s.Rounds) {
		return 0, false
	}
	s.next++
	return s.next - 1, true
}

func (s *soak) round(ctx context.Context, round Round, try int) (report.Case, error) {
	scenario, c, err := round.scenario(s.Seed)
	if err != nil {
		return report.Case{}, err
	}
	return s.Runner.Run(ctx, scenario, c, try), nil
}

// count takes a round into the tally, keeps or drops its folder, and decides what
// comes next.
func (s *soak) count(ctx context.Context, round Round, c report.Case) error {
	first := s.tell(round, c)
	if c.Verdict != verdict.Fail {
		return s.drop(c)
	}
	failure := Failure{N: round.N, Case: c, Round: round, Small: round}
	err := s.keep(round, c)
	if err == nil && first && !s.KeepGoing && s.ShrinkRuns > 0 {
		err = s.shrink(ctx, round, &failure)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Failed = append(s.result.Failed, failure)
	return err
}

// tell adds a round to the tally and says so. It returns whether the round is the
// first one that failed: no other round begins then.
func (s *soak) tell(round Round, c report.Case) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.result.Tally
	t.add(c)
	s.measure(c)
	if lacking := s.Runner.Lacking(); lacking != nil {
		s.result.Lacking, s.stop = lacking, true
	}
	if s.Done != nil {
		s.Done(Outcome{N: round.N, Kinds: kinds(round.Faults), Case: c, Tally: *t})
	}
	if c.Verdict != verdict.Fail {
		return false
	}
	first = !s.stop
	s.stop = s.stop || !s.KeepGoing
	return first
}

// RoundFile returns the file in a run's folder that a round which failed is kept in:
// a scenario with one case of the same name.
func RoundFile(c report.Case) string { return filepath.Join(c.Dir, "round.yaml") }

// keep writes the round beside its evidence, so that it can be run again.
func (s *soak) keep(round Round, c report.Case) error {
	text, err := Text(s.Seed, round)
	if err != nil || c.Dir == "" {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.Dir, RoundFile(c)), []byte(text), 0o600); err != nil {
		return fmt.Errorf("%w: %w", scenarios.ErrEnvironment, err)
	}
	return nil
}

// drop removes the folder of a round that need not be looked at.
func (s *soak) drop(c report.Case) error {
	if c.Dir == "" {
		return nil
	}
	if err := os.RemoveAll(filepath.Join(s.Dir, c.Dir)); err != nil {
		return fmt.Errorf("%w: %w", scenarios.ErrEnvironment, err)
	}
	return nil
}

func kinds(entries []schedule.Entry) []string {
	var names []string
	for _, e := range entries {
		names = append(names, e.Fault.Name())
	}
	return names
}

// shrinkForDefault is how long shrinking may take.
const shrinkForDefault = 10 * time.Minute

func (s *soak) shrinkFor() time.Duration { return cmp.Or(s.ShrinkFor, shrinkForDefault) }
