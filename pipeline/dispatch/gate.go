package dispatch

import (
	"context"
	"fmt"
	"time"

	"deadwire/pipeline/envelope"
	"deadwire/pipeline/ledger"
)

// The ways in which a dispatch ends. Those before Completed are refusals, which write
// no ledger row; Failed stands beside an error.
const (
	Disabled          = "disabled"
	HaltedOpenTrip    = "halted-open-trip"
	HaltedNewTrip     = "halted-new-trip"
	Empty             = "empty"
	ThrottledCap      = "throttled-concurrency-cap"
	Completed         = "completed"
	CompletedWithTrip = "completed-with-trip"
	Failed            = "failed"
)

// Outcome is how a dispatch ended.
type Outcome struct {
	// Status is one of the words above.
	Status string
	// Trip is the envelope's trip that halted it, or that it recorded, and Bar what tripped.
	Trip, Bar string
	// Why says more about a throttled dispatch.
	Why error
	// Elapsed is the time from the gates to the end.
	Elapsed time.Duration
	Counts
}

// Halted says whether no further batch may start before somebody looked at the trip.
func (o Outcome) Halted() bool { return o.Trip != "" }

// gates are passed before a batch is chosen, the cheap before the dear: the kill
// switch, an open trip of whatever run, the governor, and a sample of this very
// moment. The second look at the trips is for those that were recorded while the
// governor slept.
func (d *Dispatcher) gates(ctx context.Context) (Outcome, error) {
	if d.cfg.Disabled {
		return Outcome{Status: Disabled}, nil
	}
	refusal, err := d.openTrip(ctx)
	if err != nil || refusal.Status != "" {
		return refusal, err
	}
	if d.cfg.Governor == nil {
		return d.sample(ctx)
	}
	err = d.cfg.Governor.Wait(ctx)
	if err != nil {
		return Outcome{}, fmt.Errorf("wait for the load to fall: %w", err)
	}
	refusal, err = d.openTrip(ctx)
	if err != nil || refusal.Status != "" {
		return refusal, err
	}
	return d.sample(ctx)
}

func (d *Dispatcher) openTrip(ctx context.Context) (Outcome, error) {
	id, bar, err := ledger.OpenTrip(ctx, d.session)
	if err != nil || id == "" {
		return Outcome{}, err
	}
	d.cfg.Log.Warn("dispatch halted by an open trip", "trip", id, "bar", bar)
	return Outcome{Status: HaltedOpenTrip, Trip: id, Bar: bar}, nil
}

// sample measures and judges; a crossed bar is recorded and gates everybody.
func (d *Dispatcher) sample(ctx context.Context) (Outcome, error) {
	var s envelope.Sample
	s.Failed, s.Total = d.window.Counts()
	if d.cfg.Load != nil {
		if load, readable := d.cfg.Load(); readable {
			s.Load = load
		}
	}
	if d.cfg.Memory != nil {
		s.RSS = d.cfg.Memory()
	}
	breach := d.cfg.Bars.Judge(s)
	if breach == nil {
		return Outcome{}, nil
	}
	id, err := d.trip(ctx, breach)
	return Outcome{Status: HaltedNewTrip, Trip: id, Bar: breach.Bar}, err
}

func (d *Dispatcher) trip(ctx context.Context, breach *envelope.Breach) (string, error) {
	id, err := ledger.RecordTrip(ctx, d.session, breach, d.cfg.Run)
	if err == nil {
		d.cfg.Log.Error("envelope tripped", "trip", id, "bar", breach.Bar, "detail", breach.Detail)
	}
	return id, err
}

// slots is how many dispatches may run at a time: what was asked for, or what the
// governor found that the host bears.
func (d *Dispatcher) slots() int {
	if d.cfg.Governor == nil {
		return d.cfg.Slots
	}
	return min(d.cfg.Slots, d.cfg.Governor.Concurrency())
}

// remember adds a batch's fetches to the window. One that was asked to slow down is
// no outcome.
func (d *Dispatcher) remember(done Extraction) {
	for range done.Completed + done.Damaged {
		d.window.Add(false)
	}
	for range done.FetchFailures {
		d.window.Add(true)
	}
}

// locked records the trip of a lockout that the batch met, once per batch.
func (d *Dispatcher) locked(ctx context.Context, b *batch) error {
	if !b.extraction.Lockout {
		return nil
	}
	breach := envelope.Bars{}.Judge(envelope.Sample{Lockout: true})
	id, err := d.trip(context.WithoutCancel(ctx), breach)
	b.trip, b.bar = id, breach.Bar
	return err
}
