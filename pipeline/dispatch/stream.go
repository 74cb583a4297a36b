package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
	"deadwire/pipeline/worker"
)

// throttleWaitMax is the longest wait for a slot, in first waits.
const throttleWaitMax = 12

// The ways in which a stream ends.
const (
	Complete  = "complete"
	WorkLeft  = "work-left"
	Bounded   = "max-batches"
	Throttled = "throttled"
	LockedOut = "locked-out"
	Halted    = "halted"
	Off       = "disabled"
	Stopped   = "failed"
)

// Counts are totals over batches.
type Counts struct {
	Cards         int `json:"cards"`
	Extracted     int `json:"extracted"`
	Transferred   int `json:"transferred"`
	FetchFailures int `json:"fetch_failures"`
	Throttled     int `json:"fetch_throttled"`
	Damaged       int `json:"damaged"`
	Parked        int `json:"parked"`
	Votes         int `json:"votes"`
	NoMatches     int `json:"no_matches"`
	Propagated    int `json:"propagated"`
	Already       int `json:"already_voted"`
	Skips         int `json:"skips"`
	lockout       bool
}

func (b *batch) counts() Counts {
	return Counts{
		Cards: len(b.cards), Extracted: b.extraction.Completed, Transferred: b.extraction.Transferred, FetchFailures: b.extraction.FetchFailures,
		Throttled: b.extraction.Throttled, Damaged: b.extraction.Damaged, Parked: len(b.parked), Votes: b.decision.Matches,
		NoMatches: b.decision.NoMatches, Propagated: b.decision.Propagated, Already: b.decision.Already,
		Skips: b.decision.Skips, lockout: b.extraction.Lockout,
	}
}

func (c *Counts) add(other Counts) {
	c.Cards += other.Cards
	c.Extracted += other.Extracted
	c.Transferred += other.Transferred
	c.FetchFailures += other.FetchFailures
	c.Throttled += other.Throttled
	c.Damaged += other.Damaged
	c.Parked += other.Parked
	c.Votes += other.Votes
	c.NoMatches += other.NoMatches
	c.Propagated += other.Propagated
	c.Already += other.Already
	c.Skips += other.Skips
	c.lockout = c.lockout || other.lockout
}

// Summary is what a stream did and why it ended.
type Summary struct {
	Run      string  `json:"run"`
	Status   string  `json:"status"`
	Batches  int     `json:"batches"`
	Crashed  int     `json:"crashed_batches"`
	Position int64   `json:"position"`
	Trip     string  `json:"trip,omitempty"`
	Bar      string  `json:"bar,omitempty"`
	ElapsedS float64 `json:"elapsed_s"`
	// End is the last card's key when the stream began: where Position leads to.
	End int64 `json:"-"`
	Counts
	way walk
}

// Stream dispatches batches until nothing is eligible. A card that could not be
// finished is passed by within the stream and stays eligible for the next one.
func (d *Dispatcher) Stream(ctx context.Context) (Summary, error) {
	started := time.Now()
	total := Summary{Run: d.cfg.Run}
	err := d.Join(ctx)
	if err == nil {
		err = d.batches(ctx, &total)
	}
	total.ElapsedS = time.Since(started).Seconds()
	if err != nil && total.Status == "" {
		total.Status = Stopped
	}
	return total, err
}

// Join takes the lease that makes this process the owner of its ledger rows, and
// fails the rows of owners that died. Call it once, before the first batch.
func (d *Dispatcher) Join(ctx context.Context) error {
	err := d.ledger.Lease(ctx)
	if err != nil {
		return err
	}
	reaped, err := d.ledger.Reap(ctx)
	for _, id := range reaped {
		d.cfg.Log.Warn("batch of a dead owner failed", "ledger", id)
	}
	if err != nil {
		return err
	}
	_, err = d.session.Exec(ctx, schema.Orphans)
	if err != nil {
		return fmt.Errorf("orphans: %w", err)
	}
	return nil
}

func (d *Dispatcher) batches(ctx context.Context, total *Summary) (err error) {
	total.End, err = session.Value[int64](ctx, d.session, schema.CatalogueEnd)
	if err != nil {
		return fmt.Errorf("catalogue-end: %w", err)
	}
	total.way, err = d.begun(ctx)
	if err == nil && d.cfg.StartAfter != nil {
		err = d.reset(ctx, *d.cfg.StartAfter)
	}
	for err == nil && total.Status == "" {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted after %d batches: %w", total.Batches, context.Cause(ctx))
		}
		err = d.next(ctx, total)
		total.Position = total.way.at
	}
	if err == nil && (total.Status == Complete || total.Status == WorkLeft) {
		err = d.reset(ctx, 0) // the next stream over this scope is a new pass
	}
	return err
}

// next dispatches one batch, and sets the status when the stream is over.
func (d *Dispatcher) next(ctx context.Context, total *Summary) error {
	if bounded := d.cfg.MaxBatches; bounded > 0 && total.Batches >= bounded {
		cards, _, err := d.selected(ctx, total.way)
		total.Status = ending(total, len(cards) == 0)
		return err
	}
	way := total.way
	outcome, err := d.patiently(ctx, Order{Reason: "stream", Select: func(ctx context.Context) (cards []Card, err error) {
		d.cfg.Log.Info("stage", "stage", "select", "batch", d.number+1)
		cards, way, err = d.selected(ctx, total.way)
		return cards, err
	}})
	if d.survivable(err, total) {
		total.Crashed++ // the same cards come again; what was stored of them is done
		return nil
	}
	if err != nil {
		return err
	}
	total.Trip, total.Bar = outcome.Trip, outcome.Bar
	switch outcome.Status {
	case Disabled:
		total.Status = Off
	case HaltedOpenTrip, HaltedNewTrip:
		total.Status = Halted
	case Empty:
		total.Status = ending(total, true)
	case ThrottledCap:
		total.Status = Throttled
		return fmt.Errorf("%w: %w", ErrThrottled, outcome.Why)
	default:
		return d.passed(ctx, total, outcome, way)
	}
	return nil
}

// passed takes in a batch that was completed, and moves on.
func (d *Dispatcher) passed(ctx context.Context, total *Summary, outcome Outcome, way walk) error {
	total.Batches++
	total.add(outcome.Counts)
	if total.lockout {
		total.Status = LockedOut
	}
	before := total.way
	total.way, total.Position = way, way.at
	d.progress(total)
	return d.marked(ctx, before, way, outcome.Cards)
}

func (d *Dispatcher) progress(total *Summary) {
	if d.cfg.Progress != nil {
		d.cfg.Progress(*total)
	}
}

// survivable says whether a pass that is told to go on may do so: only a worker
// died, the row says so, and our own session lives.
func (d *Dispatcher) survivable(err error, total *Summary) bool {
	_, died := errors.AsType[*worker.ExitError](err)
	return died && total.Crashed < d.cfg.CrashesMax && !d.Lost()
}

// ending says how a stream is over that has nothing more to select, or no leave to.
func ending(total *Summary, exhausted bool) string {
	switch {
	case !exhausted:
		return Bounded
	case total.FetchFailures+total.Throttled > 0:
		return WorkLeft
	}
	return Complete
}

// patiently tries again while no slot is free, with doubling waits. A refusal wrote
// no row, so it is the same attempt.
func (d *Dispatcher) patiently(ctx context.Context, order Order) (Outcome, error) {
	wait := d.cfg.ThrottleWait
	for tries := 0; ; tries++ {
		outcome, err := d.Dispatch(ctx, order)
		if err != nil || outcome.Status != ThrottledCap || tries == d.cfg.ThrottleRetries {
			return outcome, err
		}
		err = pause(ctx, wait)
		if err != nil {
			return Outcome{}, err
		}
		wait = min(2*wait, throttleWaitMax*d.cfg.ThrottleWait)
	}
}

func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
