package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"deadwire/pipeline/ledger"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/slot"
	"deadwire/pipeline/worker"
)

// refused turns the want of a slot into an outcome: no permission, no work.
func (d *Dispatcher) refused(ctx context.Context, err error) (Outcome, error) {
	_, unavailable := errors.AsType[*slot.UnavailableError](err)
	if !unavailable && !errors.Is(err, slot.ErrBusy) {
		return Outcome{}, err
	}
	if ctx.Err() != nil {
		return Outcome{}, context.Cause(ctx)
	}
	d.cfg.Log.Warn("dispatch throttled", "reason", err.Error())
	_, countErr := d.session.Exec(ctx, schema.Throttled)
	if countErr != nil {
		return Outcome{}, fmt.Errorf("throttled: %w", countErr)
	}
	return Outcome{Status: ThrottledCap, Why: err}, nil
}

// fail writes the failure into the ledger and returns it with what the row says now.
func (d *Dispatcher) fail(ctx context.Context, b *batch, cause error) error {
	state, err := d.ledger.Fail(ctx, b.id, reason(cause), ledger.Counters{"elapsed_s": time.Since(b.started).Seconds()})
	b.log.Error("batch failed", "reason", reason(cause), "state", state)
	d.blame(ctx, b, cause)
	return &BatchError{Batch: b.number, Ledger: b.id, State: state, Err: joined(cause, err)}
}

// blame counts a worker's death with the card that it had in hand, and takes back the
// claim of one that lived to answer.
func (d *Dispatcher) blame(ctx context.Context, b *batch, cause error) {
	if d.session.Lost() || d.session.Closed() {
		return
	}
	ctx = context.WithoutCancel(ctx)
	exit, died := errors.AsType[*worker.ExitError](cause)
	answer, lived := errors.AsType[*worker.JobError](cause)
	var err error
	switch {
	case died && exit.Job != "":
		_, err = d.session.Exec(ctx, schema.Blame, exit.Job, exit.Error(), WorkerName(exit.Worker, exit.PID), d.cfg.Run)
	case lived:
		_, err = d.session.Exec(ctx, schema.Absolve, answer.Job, WorkerName(answer.Worker, answer.PID), d.cfg.Run)
	}
	if err != nil {
		b.log.Warn("a worker's claim was not settled", "error", err.Error())
	}
}

// WorkerName is how a claim names its worker.
func WorkerName(number, pid int) string { return fmt.Sprintf("worker %d (pid %d)", number, pid) }

// startFailed handles a row whose insertion got no good answer: it may exist all
// the same, so it is failed if it does. That there is none is not a second error.
func (d *Dispatcher) startFailed(ctx context.Context, b *batch, cause error) error {
	if !d.session.Lost() {
		return &BatchError{Batch: b.number, Ledger: b.id, Err: cause}
	}
	return d.fail(ctx, b, cause)
}

// joinedError is two errors on one line; errors.Join would break it.
type joinedError struct{ first, second error }

func (e *joinedError) Error() string   { return e.first.Error() + "; " + e.second.Error() }
func (e *joinedError) Unwrap() []error { return []error{e.first, e.second} }

func joined(first, second error) error {
	if second == nil {
		return first
	}
	return &joinedError{first: first, second: second}
}

// reason is the type and the message of what happened; the type is the innermost
// error's, that is, what happened rather than who says so.
func reason(err error) string {
	inner := err
	for next := err; next != nil; next = errors.Unwrap(next) {
		inner = next
	}
	return fmt.Sprintf("%T: %v", inner, err)
}
