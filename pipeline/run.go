package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"deadwire/pipeline/decide"
	"deadwire/pipeline/dispatch"
	"deadwire/pipeline/ledger"
	"deadwire/pipeline/reference"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// RunCommand is the ledger's name for a whole pass.
const RunCommand = "run_pipeline"

// ReferenceError says that Stage 0 failed; no card was touched.
type ReferenceError struct{ Err error }

func (e *ReferenceError) Error() string { return "stage 0: " + e.Err.Error() }
func (e *ReferenceError) Unwrap() error { return e.Err }

// Passed is what a whole pass did.
type Passed struct {
	dispatch.Summary
	// Vintage of the reference that the pass used, and whether Stage 0 stored a new one.
	Vintage   string `json:"vintage"`
	Refreshed bool   `json:"refreshed"`
	// Mixed warns that a pass which was begun earlier goes on with another vintage.
	Mixed bool `json:"mixed_vintages,omitempty"`
	// Propagation is what Stage C+ did; Channels counts the run's votes by agent.
	Propagation Propagation      `json:"propagation"`
	Channels    map[string]int64 `json:"channels"`
	Ledger      string           `json:"ledger,omitempty"`
}

// Pass is a whole pass with one ledger row over all: Stage 0 from the location (none
// when that is empty), the stream, Stage C+, and the gate that machines alone settle
// nothing. What the gate found is told by Propagation; the row is COMPLETED then,
// since the work is done.
func (c *Conveyor) Pass(ctx context.Context, location string) (passed Passed, err error) {
	passed.Summary = dispatch.Summary{Run: c.cfg.Run, Status: dispatch.Stopped}
	if location != "" {
		report, err := reference.Import(ctx, c.cfg.Database, location, reference.Options{})
		if err != nil {
			return passed, &ReferenceError{Err: err}
		}
		passed.Vintage, passed.Refreshed = report.Vintage, report.Vintage != report.Previous
	}
	err = c.coordinate(ctx, c.cfg.Scope, func(d *dispatch.Dispatcher) error { return c.pass(ctx, d, &passed) })
	return passed, err
}

func (c *Conveyor) pass(ctx context.Context, d *dispatch.Dispatcher, passed *Passed) error {
	started := time.Now()
	err := d.Join(ctx)
	if err != nil {
		return err
	}
	err = c.vintage(ctx, d.Session(), passed)
	if err != nil {
		return err
	}
	book := d.Ledger()
	passed.Ledger = d.Attempt() + "-pipeline"
	err = book.Start(ctx, ledger.Row{
		ID: passed.Ledger, DataRun: c.cfg.Run, Command: RunCommand, Revision: revision(),
		Counters: ledger.Counters{"scope": c.cfg.Scope, "vintage": passed.Vintage, "backend_pid": d.Session().BackendPID()},
	})
	if err != nil {
		return err
	}
	err = c.passing(ctx, d, passed)
	if err != nil {
		_, failErr := book.Fail(ctx, passed.Ledger, fmt.Sprintf("%T: %v", err, err), ledger.Counters{"elapsed_s": time.Since(started).Seconds()})
		return errors.Join(err, failErr)
	}
	return book.Complete(context.WithoutCancel(ctx), passed.Ledger, passed.Votes+passed.Propagation.Votes, time.Since(started), ledger.Counters{
		"status": passed.Status, "batches": passed.Batches, "cards": passed.Cards, "propagated": passed.Propagation.Votes,
		"violations": passed.Propagation.Violations, "channels": passed.Channels,
	})
}

// vintage reads what reference the pass works with, and warns when a pass that was
// begun before goes on with a newer one.
func (c *Conveyor) vintage(ctx context.Context, s *session.Session, passed *Passed) error {
	stored, err := reference.Stored(ctx, s)
	if err != nil {
		return err
	}
	passed.Vintage = stored.Vintage
	mark, err := session.Value[int64](ctx, s, schema.MarkRead, c.cfg.Scope)
	if err != nil {
		return fmt.Errorf("mark-read: %w", err)
	}
	if passed.Refreshed && mark > 0 {
		passed.Mixed = true
		c.log.Warn("one pass mixes two vintages of the reference", "vintage", passed.Vintage, "position", mark)
	}
	return nil
}

func (c *Conveyor) passing(ctx context.Context, d *dispatch.Dispatcher, passed *Passed) (err error) {
	passed.Summary, err = d.Stream(ctx)
	if err != nil || refused(passed.Status) {
		return err
	}
	s := d.Session()
	passed.Propagation, err = propagated(ctx, s, c.cfg.Run)
	if err != nil {
		return err
	}
	type channel struct {
		Agent string
		Votes int64
	}
	channels, err := session.Tuples[channel](ctx, s, schema.RunChannels, c.cfg.Run)
	if err != nil {
		return fmt.Errorf("run-channels: %w", err)
	}
	passed.Channels = map[string]int64{}
	for _, ch := range channels {
		passed.Channels[ch.Agent] = ch.Votes
	}
	return nil
}

// refused says that nothing may be written now: what has been voted waits for the next pass.
func refused(status string) bool {
	return status == dispatch.Off || status == dispatch.Halted || status == dispatch.LockedOut
}

func propagated(ctx context.Context, s *session.Session, run string) (done Propagation, err error) {
	done.Propagated, err = decide.Propagate(ctx, s, run)
	if err != nil {
		return done, err
	}
	violations, err := decide.Fidelity(ctx, s, run)
	done.Violations = len(violations)
	return done, err
}
