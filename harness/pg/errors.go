package pg

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNotOurs is what errors.Is finds in every NotOursError.
var ErrNotOurs = errors.New("the server is not ours")

// NotOursError says that a power is lacking, and why.
type NotOursError struct {
	Power  Power
	Reason string
}

func (e *NotOursError) Error() string { return fmt.Sprintf("cannot %s: %s", e.Power, e.Reason) }

// Is makes errors.Is(err, ErrNotOurs) true.
func (e *NotOursError) Is(target error) bool { return target == ErrNotOurs }

// NotBackendError says that a process is no child of our postmaster (any more),
// so it was left alone.
type NotBackendError struct {
	PID int
}

func (e *NotBackendError) Error() string {
	return fmt.Sprintf("process %d is no backend of this server", e.PID)
}

// NotDatabaseError says that a database was not made by deadwire, so it was left alone.
type NotDatabaseError struct {
	Name string
}

func (e *NotDatabaseError) Error() string {
	return fmt.Sprintf("database %q was not made by deadwire", e.Name)
}

// TooOldError says that a server or its binaries are older than MajorMin.
type TooOldError struct {
	Version Version
	Where   string // folder of the binaries, or address; may be empty
}

func (e *TooOldError) Error() string {
	where := ""
	if e.Where != "" {
		where = " in " + e.Where
	}
	return fmt.Sprintf("PostgreSQL %s%s is too old: install PostgreSQL %d or later", e.Version, where, MajorMin)
}

// MissingError says that no usable server binaries were found.
type MissingError struct {
	Looked  []string // places, each with what was wrong there
	Install string   // what to install on this system
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("no PostgreSQL server binaries found: %s (looked in: %s)", e.Install, strings.Join(e.Looked, "; "))
}

// StartError says that the server died, or was not ready in time, and holds the
// end of its log.
type StartError struct {
	Err error
	Log []string // the last lines, oldest first
}

func (e *StartError) Error() string {
	if len(e.Log) == 0 {
		return e.Err.Error() + " (its log is empty)"
	}
	return e.Err.Error() + "; its log ends with:\n  " + strings.Join(e.Log, "\n  ")
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }
