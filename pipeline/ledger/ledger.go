// Package ledger owns the durable record of each batch: started, and how it
// ended. It does not decide whether a batch succeeded, and keeps no belief of its
// own about a row: every ending is a conditional update whose row count is checked,
// so the database is authoritative.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// The states of a row, as stored.
const (
	Running   = "running"
	Completed = "completed"
	Failed    = "failed"
)

const (
	// idMax is the column's width, in bytes.
	idMax = 64
	// reasonMax bounds a failure reason, in characters.
	reasonMax = 2000
)

// Counters are the numbers and names that a row keeps besides its state.
type Counters map[string]any

// Row is a new row: what is known before the work begins.
type Row struct {
	// ID is unique over batches, attempts and processes, at most 64 bytes.
	ID string
	// DataRun is the run id that the batch's data carries; many rows share it.
	DataRun string
	// Command names the kind of work.
	Command string
	// Revision is the program's version.
	Revision string
	// Counters are never overwritten by a failure.
	Counters Counters
}

// UnmarkedError says that a failed batch could not be marked: its row stays
// RUNNING. It joins the batch's own failure with what kept the ledger from being
// written.
type UnmarkedError struct {
	ID    string
	Cause error
}

func (e *UnmarkedError) Error() string {
	return fmt.Sprintf("ledger-fail: row %s stays running: %v", e.ID, e.Cause)
}
func (e *UnmarkedError) Unwrap() error { return e.Cause }

// Ledger writes rows on the coordinator's session. Only a failure may, when that
// session was lost, open another one.
type Ledger struct {
	session *session.Session
	config  session.Config
}

// New makes a ledger over the coordinator's session. The config is used to open
// the session "conveyor/ledger-fail" when the first one was lost.
func New(coordinator *session.Session, config session.Config) *Ledger {
	return &Ledger{session: coordinator, config: config}
}

// Start records a batch as RUNNING, before any of its work and outside any
// transaction, so that the row survives whatever comes.
func (l *Ledger) Start(ctx context.Context, row Row) error {
	if len(row.ID) > idMax || len(row.DataRun) > idMax {
		return fmt.Errorf("ledger-start: id %q or run %q is longer than %d bytes", row.ID, row.DataRun, idMax)
	}
	if row.Counters == nil {
		row.Counters = Counters{}
	}
	err := session.Expect(1)(l.session.Exec(ctx, schema.LedgerStart,
		row.ID, row.DataRun, row.Command, row.Revision, row.Counters))
	if err != nil {
		return fmt.Errorf("ledger-start: %w", err)
	}
	return nil
}

// Complete marks a RUNNING row as COMPLETED and merges the counters, in one
// statement. Anything but exactly one updated row is an error: then the answer was
// not ours, or the row had ended already.
func (l *Ledger) Complete(ctx context.Context, id string, votes int, elapsed time.Duration, counters Counters) error {
	merged := Counters{"elapsed_s": elapsed.Seconds()}
	for name, value := range counters {
		merged[name] = value
	}
	err := session.Expect(1)(l.session.Exec(ctx, schema.LedgerComplete, id, votes, merged))
	if err != nil {
		return fmt.Errorf("ledger-complete: %w", err)
	}
	return nil
}

// Fail marks a row that is still RUNNING as FAILED with the reason, and returns
// the state that the row really has afterwards: COMPLETED when the interrupted
// write of Complete had reached the server after all. It runs on a context of its own, on
// the original session while that lives, on a new one when it was lost, and on none
// when its owner closed it: then the error is an UnmarkedError around
// session.ErrClosed.
func (l *Ledger) Fail(ctx context.Context, id, reason string, counters Counters) (state string, err error) {
	ctx = context.WithoutCancel(ctx)
	if counters == nil {
		counters = Counters{}
	}
	state, err = fail(ctx, l.session, id, reason, counters)
	if err != nil && l.session.Lost() {
		state, err = l.failElsewhere(ctx, id, reason, counters)
	}
	if err != nil {
		return Running, &UnmarkedError{ID: id, Cause: err}
	}
	return state, nil
}

func (l *Ledger) failElsewhere(ctx context.Context, id, reason string, counters Counters) (string, error) {
	fresh, err := session.Open(ctx, l.config, "ledger-fail")
	if err != nil {
		return "", err
	}
	state, err := fail(ctx, fresh, id, reason, counters)
	return state, errors.Join(err, fresh.Close(ctx))
}

func fail(ctx context.Context, on *session.Session, id, reason string, counters Counters) (string, error) {
	err := session.Expect(1)(on.Exec(ctx, schema.LedgerFail, id, clip(reason), counters))
	if err == nil {
		return Failed, nil
	}
	if _, ended := errors.AsType[*session.RowCountError](err); !ended {
		return "", err
	}
	state, lookErr := session.Value[string](ctx, on, schema.LedgerStatus, id)
	if lookErr != nil || state == Running {
		return "", errors.Join(err, lookErr)
	}
	return state, nil
}

// clip bounds a reason and makes it storable: never empty, valid UTF-8, no NUL.
func clip(reason string) string {
	if reason == "" {
		return "unknown"
	}
	clean := make([]rune, 0, min(len(reason), reasonMax))
	for _, r := range reason {
		if len(clean) == reasonMax {
			break
		}
		if r == 0 {
			r = utf8.RuneError
		}
		clean = append(clean, r)
	}
	return string(clean)
}
