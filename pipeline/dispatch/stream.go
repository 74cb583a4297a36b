package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"deadwire/pipeline/deduce"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
	"deadwire/pipeline/worker"
)

const (
	// chunkMax bounds one selection query, in cards.
	chunkMax = 250
	// throttleWaitMax is the longest wait for a slot, in first waits.
	throttleWaitMax = 12
)

// The ways in which a stream ends.
const (
	Complete  = "complete"
	WorkLeft  = "work-left"
	Bounded   = "max-batches"
	Throttled = "throttled"
	LockedOut = "locked-out"
	Stopped   = "failed"
)

// Counts are totals over batches.
type Counts struct {
	Cards         int `json:"cards"`
	Extracted     int `json:"extracted"`
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
		Cards: len(b.cards), Extracted: b.extraction.Completed, FetchFailures: b.extraction.FetchFailures,
		Throttled: b.extraction.Throttled, Damaged: b.extraction.Damaged, Parked: len(b.parked), Votes: b.decision.matches,
		NoMatches: b.decision.noMatches, Propagated: b.decision.propagated, Already: b.decision.already,
		Skips: b.decision.skips, lockout: b.extraction.Lockout,
	}
}

func (c *Counts) add(other Counts) {
	c.Cards += other.Cards
	c.Extracted += other.Extracted
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
	ElapsedS float64 `json:"elapsed_s"`
	Counts
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
	return err
}

func (d *Dispatcher) batches(ctx context.Context, total *Summary) error {
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted after %d batches: %w", total.Batches, context.Cause(ctx))
		}
		over, err := d.next(ctx, total)
		if over || err != nil {
			return err
		}
	}
}

// next selects and dispatches one batch, and says whether the stream is over.
func (d *Dispatcher) next(ctx context.Context, total *Summary) (over bool, err error) {
	number := total.Batches + total.Crashed + 1
	d.cfg.Log.Info("stage", "stage", "select", "batch", number)
	cards, position, err := d.selected(ctx, total.Position)
	if err != nil {
		return true, fmt.Errorf("select: %w", err)
	}
	total.Status = ending(total, len(cards) == 0, d.cfg.MaxBatches)
	if total.Status != "" {
		return true, nil
	}
	counts, err := d.patiently(ctx, number, cards)
	if d.survivable(err, total) {
		total.Crashed++ // the same cards come again; what was stored of them is done
		return false, nil
	}
	if errors.Is(err, ErrThrottled) {
		total.Status = Throttled
	}
	if err != nil {
		return true, err
	}
	total.Batches++
	total.Position = position
	total.add(counts)
	return false, nil
}

// survivable says whether a pass that is told to go on may do so: only a worker
// died, the row says so, and our own session lives.
func (d *Dispatcher) survivable(err error, total *Summary) bool {
	_, died := errors.AsType[*worker.ExitError](err)
	return died && total.Crashed < d.cfg.CrashesMax && !d.session.Lost() && !d.session.Closed()
}

// ending says whether and how the stream is over, "" when it goes on.
func ending(total *Summary, exhausted bool, batchesMax int) string {
	switch {
	case total.lockout:
		return LockedOut
	case exhausted && total.FetchFailures+total.Throttled > 0:
		return WorkLeft
	case exhausted:
		return Complete
	case batchesMax > 0 && total.Batches >= batchesMax:
		return Bounded
	}
	return ""
}

// selected walks the keyset from a position until a batch is full or the catalogue
// ends. The new position is the last card taken, or the end of what was seen.
func (d *Dispatcher) selected(ctx context.Context, position int64) ([]Card, int64, error) {
	var batch []Card
	for {
		chunk, err := session.Rows[selectedRow](ctx, d.session, schema.Select,
			position, chunkMax, d.cfg.Versions, deduce.JoinKeyAgent, d.cfg.PoisonAfter)
		if err != nil || len(chunk) == 0 {
			return batch, position, err
		}
		for _, row := range chunk {
			position = row.ID
			if !row.NeedsExtraction && !row.NeedsDecision && !row.NeedsParking {
				continue
			}
			batch = append(batch, row.card())
			if len(batch) == d.cfg.Batch {
				return batch, position, nil
			}
		}
	}
}

// selectedRow is what the statement Select returns.
type selectedRow struct {
	ID              int64
	Identifier      string
	File            string
	DPI             int    `db:"dpi"`
	MD5             string `db:"md5"`
	ContentPhash    int64
	NeedsExtraction bool
	NeedsDecision   bool
	NeedsParking    bool
	Stored          bool
}

func (r selectedRow) card() Card { return Card(r) }

// patiently retries the same batch while no slot is free, with doubling waits. A
// refusal wrote no row, so the retry is the same attempt.
func (d *Dispatcher) patiently(ctx context.Context, number int, cards []Card) (Counts, error) {
	wait := d.cfg.ThrottleWait
	for tries := 0; ; tries++ {
		counts, err := d.Dispatch(ctx, number, cards)
		if !errors.Is(err, ErrThrottled) || tries == d.cfg.ThrottleRetries {
			return counts, err
		}
		err = pause(ctx, wait)
		if err != nil {
			return Counts{}, err
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
