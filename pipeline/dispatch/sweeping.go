package dispatch

import (
	"context"
	"fmt"
	"time"

	"deadwire/pipeline/sweep"
)

// sweepMax bounds one sweep, in batches.
const sweepMax = 1000

// sweeping is a sweep while it runs. A card that it dispatched once it passes by
// from then on: what the source does not have now it will not have in a minute.
type sweeping struct {
	*Dispatcher
	total *Summary
	tried map[int64]bool
}

// Sweep dispatches what streams and events left behind: first the cards without
// current evidence, then those with evidence that nobody decided on, each until a
// whole lap of its cursor found nothing. It waits for no slot: the next sweep goes on.
func (d *Dispatcher) Sweep(ctx context.Context) (Summary, error) {
	started := time.Now()
	total := Summary{Run: d.cfg.Run}
	s := &sweeping{Dispatcher: d, total: &total, tried: map[int64]bool{}}
	err := d.Join(ctx)
	for _, stage := range []string{sweep.StageC, sweep.StageD} {
		var lap sweep.Lap
		for err == nil && total.Status == "" && !lap.Proven() {
			err = s.next(ctx, stage, &lap)
		}
	}
	total.ElapsedS = time.Since(started).Seconds()
	switch {
	case err != nil:
		total.Status = Stopped
	case total.Status == "":
		total.Status = ending(&total, true)
	}
	return total, err
}

func (s *sweeping) next(ctx context.Context, stage string, lap *sweep.Lap) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted after %d batches: %w", s.total.Batches, context.Cause(ctx))
	}
	bound := sweepMax
	if s.cfg.MaxBatches > 0 {
		bound = min(bound, s.cfg.MaxBatches)
	}
	if s.total.Batches >= bound {
		s.total.Status = Bounded
		return nil
	}
	outcome, err := s.Dispatch(ctx, Order{Reason: "sweep-" + stage, Claim: func(ctx context.Context) ([]Card, error) {
		cards, found, err := s.claim(ctx, stage)
		lap.Observe(found)
		return cards, err
	}})
	if s.survivable(err, s.total) {
		s.total.Crashed++
		return nil
	}
	if err != nil {
		return err
	}
	s.took(outcome)
	return nil
}

// claim takes from the cursor what this sweep has not tried yet.
func (s *sweeping) claim(ctx context.Context, stage string) ([]Card, sweep.Found, error) {
	read := s.reader(stage)
	walker := sweep.Walker{Session: s.session, Cursor: stage, Read: func(ctx context.Context, position int64, limit int) ([]sweep.Candidate, error) {
		seen, err := read(ctx, position, limit)
		for i := range seen {
			seen[i].Eligible = seen[i].Eligible && !s.tried[seen[i].ID]
		}
		return seen, err
	}}
	found, err := walker.Claim(ctx, s.cfg.Batch)
	if err != nil || len(found.IDs) == 0 {
		return nil, found, err
	}
	for _, id := range found.IDs {
		s.tried[id] = true
	}
	cards, err := s.Seeded(ctx, found.IDs)
	return cards, found, err
}

// took adds an outcome to the sweep's total, and ends the sweep where it must.
func (s *sweeping) took(outcome Outcome) {
	switch outcome.Status {
	case Empty:
		return
	case Disabled:
		s.total.Status = Off
		return
	case HaltedOpenTrip, HaltedNewTrip:
		s.total.Status, s.total.Trip, s.total.Bar = Halted, outcome.Trip, outcome.Bar
		return
	case ThrottledCap:
		s.total.Status = Throttled
		return
	}
	s.total.Batches++
	s.total.add(outcome.Counts)
	s.progress(s.total)
	if s.total.lockout {
		s.total.Status, s.total.Trip, s.total.Bar = LockedOut, outcome.Trip, outcome.Bar
	}
}
