// Package dispatch owns the state machine of a micro-batch: slot, ledger, Stage C,
// partition, Stage D, votes, ledger; and the stream of batches over the catalogue.
// It does not fetch or compute (an Extractor does) and does not decide what evidence
// means (package deduce does). The ledger row is authoritative about how a batch
// ended; what this package returns only repeats it.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"deadwire/pipeline/decide"
	"deadwire/pipeline/envelope"
	"deadwire/pipeline/ledger"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
	"deadwire/pipeline/slot"
)

// Command is the ledger's name for a streamed batch.
const Command = "stage_e_streaming_dispatch"

// Agent is the identity under which Stage C writes scan logs.
const Agent = "stage-c-v1"

// The named skips of Stage C. DamagedImage is final and has evidence that says so:
// the image is what its owner uploaded, and nobody can read it. After the others the
// card has no new evidence and stays eligible.
const (
	DamagedImage  = "damaged-image"
	FetchFailed   = "fetch-failed"
	FetchThrottle = "fetch-throttled"
	WrongImage    = "content-mismatch"
	// PoisonCard is final for the image: its compute killed too many workers.
	PoisonCard = "poison-card"
)

// Card is a selected card and what there is to do on it.
type Card struct {
	ID              int64
	Identifier      string
	File            string
	DPI             int
	MD5             string
	ContentPhash    int64
	NeedsExtraction bool
	NeedsDecision   bool
	NeedsParking    bool
	Stored          bool // evidence of some version is there, and parts of it may be current
}

// Skip is a card that Stage C could not extract, and why.
type Skip struct {
	Card   int64
	Reason string
}

// Extraction is what Stage C did on a batch. Fetch failures and throttled fetches
// leave their cards eligible for the next run.
type Extraction struct {
	Completed int
	// Transferred is cards that got the evidence of a twin, without a fetch.
	Transferred   int
	FetchFailures int
	Throttled     int
	Damaged       int
	Skips         []Skip
	// Lockout says that the source locked us out: no more fetches in this process.
	Lockout bool
}

// Extractor is Stage C: it fetches and computes the cards and persists their
// evidence under the run id. An error means that the batch failed; what was
// persisted by then stays.
type Extractor interface {
	Extract(ctx context.Context, run string, cards []Card) (Extraction, error)
}

// Config says how to dispatch.
type Config struct {
	// Run is the id that all data of the stream carries, at most 40 bytes.
	Run string
	// Attempt makes ledger ids unique when a run id is used again.
	Attempt string
	// Scope names what the stream works on; one stream at a time.
	Scope string
	// Revision is the program's version, for the ledger.
	Revision string
	// Batch is the number of cards in a batch; default 12.
	Batch int
	// Slots is how many dispatches may run at once in this database; default 6.
	Slots int
	// MaxBatches ends the stream early; 0 means no bound.
	MaxBatches int
	// ThrottleRetries bounds consecutive refusals for want of a slot; default 20.
	ThrottleRetries int
	// ThrottleWait is the first wait after a refusal, doubling to twelve times
	// itself; default 5 s.
	ThrottleWait time.Duration
	// PoisonAfter is how many attempts in a row that killed their worker park a
	// card; default 3.
	PoisonAfter int
	// CrashesMax is how many batches that a worker's death ended a stream outlives;
	// 0 ends it at the first.
	CrashesMax int
	// Disabled refuses every dispatch.
	Disabled bool
	// NoTransfer computes each card anew, whatever is known of the same bytes.
	NoTransfer bool
	// Bars are the envelope's; the zero value trips on a lockout only.
	Bars envelope.Bars
	// Governor slows before the load trips; nil: nothing is waited for.
	Governor *envelope.Governor
	// Load and Memory sample the host and our processes; nil: not sampled.
	Load   func() (float64, bool)
	Memory func() int64
	// Sources bounds the work to cards of these sources (keys of table source); empty:
	// all.
	Sources []int64
	// Before makes evidence from before this instant count as none.
	Before time.Time
	// StartAfter sets the scope's mark before the stream begins; nil: go on at the mark.
	StartAfter *int64
	// Done is told how each dispatch ended, refusals and failures too; nil: nobody is.
	Done func(Outcome)
	// Progress is told the total after each batch of a stream or sweep; nil: nobody is.
	Progress func(Summary)
	// Versions is the manifest of current extractor versions.
	Versions map[string]string
	// Sessions opens slot sessions and, in need, the ledger's.
	Sessions session.Config
	// Log receives progress; default: nothing.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Batch = defaulted(c.Batch, 12)
	c.Slots = defaulted(c.Slots, 6)
	c.PoisonAfter = defaulted(c.PoisonAfter, 3)
	c.ThrottleRetries = defaulted(c.ThrottleRetries, 20)
	c.ThrottleWait = defaulted(c.ThrottleWait, 5*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func defaulted[T int | time.Duration](value, otherwise T) T {
	if value <= 0 {
		return otherwise
	}
	return value
}

// Dispatcher runs batches on the coordinator's session.
type Dispatcher struct {
	cfg       Config
	session   *session.Session
	ledger    *ledger.Ledger
	extractor Extractor
	window    envelope.Window
	number    int // of the last batch with a ledger row
}

// New makes a dispatcher. The session stays its caller's.
func New(cfg Config, coordinator *session.Session, extractor Extractor) *Dispatcher {
	return &Dispatcher{
		cfg: cfg.withDefaults(), session: coordinator, extractor: extractor,
		ledger: ledger.New(coordinator, cfg.Sessions),
	}
}

// ErrThrottled says that no slot was free until patience was over, or that none
// could be asked for. Nothing was done and no ledger row was written.
var ErrThrottled = errors.New("dispatch throttled")

// BatchError says that a batch failed and what its ledger row says now.
type BatchError struct {
	Batch  int
	Ledger string
	// State is the row's state as far as it is known: failed; running when it could
	// not be marked; completed when only the answer was lost.
	State string
	Err   error
}

func (e *BatchError) Error() string { return fmt.Sprintf("batch %d: %v", e.Batch, e.Err) }
func (e *BatchError) Unwrap() error { return e.Err }

// batch is one dispatch while it runs.
type batch struct {
	number     int
	id         string
	cards      []Card
	slot       *slot.Slot
	log        *slog.Logger
	started    time.Time
	extraction Extraction
	decision   decide.Counts
	parked     []int64
	trip, bar  string
	reason     string
}

// Order says what a dispatch works on.
type Order struct {
	// Reason is what triggered it: stream, sweep, card-create, evidence-change.
	Reason string
	// Select chooses the cards, before a slot is asked for; it claims nothing.
	Select func(context.Context) ([]Card, error)
	// Claim chooses the cards under the slot, so that nothing is claimed in vain. Used
	// when Select is nil.
	Claim func(context.Context) ([]Card, error)
}

// Dispatch runs one batch: past the gates, under a slot, with a ledger row. Refusals
// are outcomes without a row; its error is a *BatchError for a batch that failed.
func (d *Dispatcher) Dispatch(ctx context.Context, order Order) (Outcome, error) {
	started := time.Now()
	outcome, err := d.dispatch(ctx, order)
	if err != nil {
		outcome.Status = Failed
	}
	outcome.Elapsed = time.Since(started)
	if d.cfg.Done != nil {
		d.cfg.Done(outcome)
	}
	return outcome, err
}

func (d *Dispatcher) dispatch(ctx context.Context, order Order) (Outcome, error) {
	refusal, err := d.gates(ctx)
	if err != nil || refusal.Status != "" {
		return refusal, err
	}
	var cards []Card
	if order.Select != nil {
		cards, err = order.Select(ctx)
		if err != nil || len(cards) == 0 {
			return Outcome{Status: Empty}, err
		}
	}
	held, err := slot.Acquire(ctx, d.cfg.Sessions, d.slots())
	if err != nil {
		return d.refused(ctx, err)
	}
	b := &batch{number: d.number + 1, reason: order.Reason, cards: cards, slot: held, started: time.Now()}
	b.id = fmt.Sprintf("%s-b%04d", d.Attempt(), b.number)
	b.log = d.cfg.Log.With("batch", b.number, "ledger", b.id)
	defer d.release(ctx, b)
	if order.Select == nil {
		b.cards, err = order.Claim(ctx)
		if err != nil || len(b.cards) == 0 {
			return Outcome{Status: Empty}, err
		}
	}
	return d.recorded(ctx, b)
}

// release reports a slot that was not held any more, but does not undo a batch for
// it: the batch itself checks before it votes.
func (d *Dispatcher) release(ctx context.Context, b *batch) {
	err := b.slot.Release(ctx)
	if err != nil {
		b.log.Warn("slot was not held at its release", "error", err.Error(), "slot", b.slot.Number())
	}
}

// Lost says that the coordinator's session is gone: nothing can be dispatched any more.
func (d *Dispatcher) Lost() bool { return d.session.Lost() || d.session.Closed() }

// Session is the coordinator's, between batches; its owner closes it.
func (d *Dispatcher) Session() *session.Session { return d.session }

// Ledger is where the batches are recorded, under the lease that Join took.
func (d *Dispatcher) Ledger() *ledger.Ledger { return d.ledger }

// Attempt begins the ids of all ledger rows of this process.
func (d *Dispatcher) Attempt() string { return d.cfg.Run + "-" + d.cfg.Attempt }

// recorded runs the batch between its ledger entries.
func (d *Dispatcher) recorded(ctx context.Context, b *batch) (Outcome, error) {
	b.stage("ledger")
	d.number = b.number
	err := d.ledger.Start(ctx, ledger.Row{
		ID: b.id, DataRun: d.cfg.Run, Command: Command, Revision: d.cfg.Revision,
		Counters: ledger.Counters{
			"trigger_reason": b.reason, "batch_size": len(b.cards), "scope": d.cfg.Scope,
			"backend_pid": d.session.BackendPID(), "slot": b.slot.Number(), "slots": d.slots(),
		},
	})
	if err != nil {
		return Outcome{}, d.startFailed(ctx, b, err)
	}
	err = d.work(ctx, b)
	if err == nil {
		err = d.complete(ctx, b)
	}
	if err != nil {
		return Outcome{Counts: b.counts()}, d.fail(ctx, b, err)
	}
	b.stage("done")
	b.log.Info("batch completed", "cards", len(b.cards), "votes", b.decision.Written(), "elapsed_s", time.Since(b.started).Seconds())
	outcome := Outcome{Status: Completed, Trip: b.trip, Bar: b.bar, Counts: b.counts()}
	if b.trip != "" {
		outcome.Status = CompletedWithTrip
	}
	return outcome, nil
}

func (d *Dispatcher) work(ctx context.Context, b *batch) error {
	err := d.extract(ctx, b)
	if err != nil {
		return err
	}
	b.stage("partition")
	resolved, err := d.partition(ctx, b)
	if err != nil {
		return err
	}
	b.stage("d")
	return d.decide(ctx, b, resolved)
}

func (d *Dispatcher) extract(ctx context.Context, b *batch) error {
	b.stage("c")
	var todo []Card
	for _, card := range b.cards {
		if card.NeedsExtraction {
			todo = append(todo, card)
		}
		if card.NeedsParking {
			b.parked = append(b.parked, card.ID)
			b.log.Error("card parked", "card", card.Identifier, "reason", PoisonCard)
		}
	}
	todo, given, err := d.transfer(ctx, todo)
	if err != nil {
		return err
	}
	b.extraction, err = d.extractor.Extract(ctx, d.cfg.Run, todo)
	b.extraction.Transferred = given
	d.remember(b.extraction)
	if err != nil {
		return fmt.Errorf("stage c: %w", err)
	}
	return d.locked(ctx, b)
}

// transfer gives cards what is known of the same bytes under another name, before
// anything is fetched, and returns those that still need a fetch.
func (d *Dispatcher) transfer(ctx context.Context, todo []Card) (rest []Card, given int, err error) {
	if len(todo) == 0 || d.cfg.NoTransfer {
		return todo, 0, nil
	}
	known, err := session.Column[int64](ctx, d.session, schema.Transfer, keys(todo), d.cfg.Versions, d.cfg.Run, d.cfg.Before)
	if err != nil {
		return nil, 0, fmt.Errorf("transfer: %w", err)
	}
	rest = slices.DeleteFunc(todo, func(card Card) bool { return slices.Contains(known, card.ID) })
	return rest, len(known), nil
}

// measured adds to a batch's counters what the gates and the host had to do with it.
func (d *Dispatcher) measured(b *batch) ledger.Counters {
	counters := b.counters()
	if b.trip != "" {
		counters["lockout_trip_id"] = b.trip
	}
	if d.cfg.Memory != nil {
		counters["peak_rss_mb"] = d.cfg.Memory() >> 20
	}
	if d.cfg.Governor != nil {
		waits, slept := d.cfg.Governor.Waits()
		counters["load_brake_waits"], counters["load_brake_seconds"] = waits, slept.Seconds()
		counters["load_governor_concurrency"] = d.cfg.Governor.Concurrency()
	}
	return counters
}

// complete ends the row before anything is said about it, and also for a caller who
// was cancelled meanwhile: the votes are committed, so the batch is done.
func (d *Dispatcher) complete(ctx context.Context, b *batch) error {
	return d.ledger.Complete(context.WithoutCancel(ctx), b.id, b.decision.Written(), time.Since(b.started), d.measured(b))
}

func (b *batch) stage(name string) { b.log.Info("stage", "stage", name) }
