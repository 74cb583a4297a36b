package worker

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrClosed says that the pool was closed by its owner.
var ErrClosed = errors.New("worker pool is closed")

// errImpatient is why the last workers are killed when Close's context ends
var errImpatient = errors.New("pool was closed and could not wait longer")

// ExitError says that a worker process ended on its own: killed, crashed, or gone without being asked.
type ExitError struct {
	Worker int            // 1..N
	PID    int            // of the process that ended
	Code   int            // exit code; -1 when a signal ended it
	Signal syscall.Signal // 0 when it exited by itself
	Job    string         // what it was working on; empty when idle
	Reason string         // why the pool ended it itself; empty when it did not
	Crash  string         // first line of a Go crash report ("panic: …", "fatal error: …"), if it wrote one
	Stderr []string       // its last lines
}

// Error reads "worker 2 (pid 123) killed by SIGKILL" or "worker 2 (pid 123) exited with code 2: panic: …".
func (e *ExitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "worker %d (pid %d) ", e.Worker, e.PID)
	if e.Signal != 0 {
		fmt.Fprintf(&b, "killed by %s", signalName(e.Signal))
	} else {
		fmt.Fprintf(&b, "exited with code %d", e.Code)
	}
	for _, more := range []string{e.Reason, e.Crash} {
		if more != "" {
			b.WriteString(": " + more)
		}
	}
	return b.String()
}

// orderly says that the process left by itself, without complaint
func (e *ExitError) orderly() bool { return e.Signal == 0 && e.Code == 0 && e.Reason == "" }

// signalName never returns an empty string, so that a record of it always says something
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}

// JobError says that a job ended with an error while its worker lives on.
type JobError struct {
	Worker  int
	PID     int
	Job     string
	Kind    string // Go type of the innermost error, such as "*pgconn.PgError"
	Message string
}

func (e *JobError) Error() string {
	return fmt.Sprintf("worker %d (pid %d), job %s: %s", e.Worker, e.PID, e.Job, e.Message)
}

// InitError says that a worker reported that it could not get ready.
type InitError struct {
	Worker  int
	PID     int
	Kind    string // as in JobError
	Message string
}

func (e *InitError) Error() string {
	return fmt.Sprintf("worker %d (pid %d) could not start: %s", e.Worker, e.PID, e.Message)
}

// BrokenError is returned by a pool that lost a worker and was not healed since.
type BrokenError struct {
	Cause error // usually *ExitError
}

func (e *BrokenError) Error() string { return "worker pool is broken: " + e.Cause.Error() }

func (e *BrokenError) Unwrap() error { return e.Cause }

// kind names the type of the innermost error: the one that happened, not those that explain it
func kind(err error) string {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return fmt.Sprintf("%T", err)
}
