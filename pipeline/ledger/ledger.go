// Package ledger owns the durable record of each batch: started, and how it
// ended. It does not decide whether a batch succeeded, and keeps no belief of its
// own about a row: every ending is a conditional update whose row count is checked,
// so the database is authoritative.
package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	// backoff: growing, jittered pauses between tries, and errors that end them.
	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// The states of a row, as stored; Absent stands for no row.
const (
	Absent    = ""
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

// how long and how often a failure is tried to be recorded on a new session
const (
	failTries    = 4               // times the bound of one statement, at most failMax
	failMax      = 8 * time.Second // so that a stopped stream ends within ten seconds
	failPauseMin = 25 * time.Millisecond
	failPauseMax = 500 * time.Millisecond
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
	owner   owner
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
		row.ID, row.DataRun, row.Command, row.Revision, row.Counters,
		l.owner.host, l.owner.pid, l.owner.started, l.owner.lease))
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
// write of Complete had reached the server after all, Absent when the row was never
// written. It runs on a context of its own, on
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

// failElsewhere records the failure over a session of its own. The server may be
// restarting or recovering, which takes seconds, so a refused connection is tried
// again with growing pauses, for a few times the bound of one statement.
func (l *Ledger) failElsewhere(ctx context.Context, id, reason string, counters Counters) (string, error) {
	patience := min(failTries*cmp.Or(l.config.Timeout, session.TimeoutDefault), failMax)
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = failPauseMin, failPauseMax
	return backoff.Retry(ctx, func() (string, error) {
		fresh, err := session.Open(ctx, l.config, "ledger-fail")
		if err != nil {
			return "", final(err)
		}
		state, err := fail(ctx, fresh, id, reason, counters)
		return state, final(errors.Join(err, fresh.Close(ctx)))
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(patience))
}

// final marks an error that no further try can mend: the server answered, and not
// that it cannot connect now (57P03) or has no slot free (53300).
func final(err error) error {
	refusal, answered := errors.AsType[*pgconn.PgError](err)
	if answered && refusal.Code != "57P03" && refusal.Code != "53300" && refusal.Code != "57P01" {
		return backoff.Permanent(err)
	}
	return err
}

func fail(ctx context.Context, on *session.Session, id, reason string, counters Counters) (string, error) {
	err := session.Expect(1)(on.Exec(ctx, schema.LedgerFail, id, clip(reason), counters))
	if err == nil {
		return Failed, nil
	}
	if _, ended := errors.AsType[*session.RowCountError](err); !ended {
		return "", err
	}
	return ended(ctx, on, id, err)
}

// ended reads back the state of a row that refused to be failed. One that is
// RUNNING all the same was not refused for its state: then the refusal stands.
func ended(ctx context.Context, on *session.Session, id string, refusal error) (string, error) {
	states, err := session.Column[string](ctx, on, schema.LedgerStatus, id)
	switch {
	case err != nil:
		return "", fmt.Errorf("ledger-status: %w", err)
	case len(states) == 0:
		return Absent, nil
	case states[0] == Running:
		return "", refusal
	}
	return states[0], nil
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
