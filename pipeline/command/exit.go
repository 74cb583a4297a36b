package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	// pgconn: the server's answer as data, to tell a database that was never migrated.
	"github.com/jackc/pgx/v5/pgconn"

	"deadwire/pipeline/dispatch"
	"deadwire/pipeline/session"
)

// Exit codes, as in the specification's table. A termination that leaves work
// undone never exits with CodeOK.
const (
	CodeOK        = 0
	CodeError     = 1
	CodeReference = 2
	CodeHalted    = 3
	CodeThrottled = 4
	CodeWorkLeft  = 5
	CodeDisabled  = 6
	CodeFidelity  = 7
)

// ExitError carries the exit code of an ending that is told by its own words.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string { return e.Err.Error() }
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode is the code that a program must end with after the error.
func ExitCode(err error) int {
	if err == nil {
		return CodeOK
	}
	if exit, ok := errors.AsType[*ExitError](err); ok {
		return exit.Code
	}
	if _, held := errors.AsType[*session.HeldError](err); held || errors.Is(err, dispatch.ErrThrottled) {
		return CodeThrottled
	}
	return CodeError
}

// mended names the mend of an error that has one: a database without conveyor's
// tables, or with those of an older version.
func mended(name string, err error) error {
	refusal, answered := errors.AsType[*pgconn.PgError](err)
	if !answered || refusal.Code != undefinedTable && refusal.Code != undefinedColumn {
		return err
	}
	return fmt.Errorf("the database lacks tables of this version: run %s migrate (%w)", name, err)
}

// SQLSTATEs of a database that was not migrated.
const (
	undefinedTable  = "42P01"
	undefinedColumn = "42703"
)

// Report writes the error as one line, "NAME: …", and nothing for nil.
func Report(to io.Writer, name string, err error) {
	if err == nil {
		return
	}
	line := strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", "; ")), " ")
	_, _ = fmt.Fprintf(to, "%s: %s\n", name, line) // nobody is left to tell
}

// ended turns the way in which a stream or sweep ended without an error into one,
// when work was left.
func ended(what string, summary dispatch.Summary) error {
	switch summary.Status {
	case dispatch.Complete:
		return nil
	case dispatch.LockedOut:
		return &ExitError{CodeHalted, fmt.Errorf("%s halted: the source locked us out (trip %s); work is left", what, summary.Trip)}
	case dispatch.Halted:
		return &ExitError{CodeHalted, fmt.Errorf("%s halted by trip %s (%s): look into it, then: conveyor trip resolve %s --note WHY",
			what, summary.Trip, summary.Bar, summary.Trip)}
	case dispatch.Off:
		return &ExitError{CodeDisabled, fmt.Errorf("%s is disabled by %s", what, enabledEnv)}
	case dispatch.Throttled:
		return &ExitError{CodeThrottled, fmt.Errorf("%s stopped: no slot was free; work is left", what)}
	case dispatch.Bounded:
		return &ExitError{CodeWorkLeft, fmt.Errorf("%s stopped after %d batches; work is left", what, summary.Batches)}
	}
	return &ExitError{CodeWorkLeft, fmt.Errorf("%s ended with work left: %d fetches failed, %d were throttled",
		what, summary.FetchFailures, summary.Counts.Throttled)}
}
