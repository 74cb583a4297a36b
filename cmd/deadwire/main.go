// Command deadwire finds out who hung up on a PostgreSQL session, how and why.
// It owns the process: its flags, streams and exit code; everything else is
// done by the packages. README.md is authoritative for what a user may rely on.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"deadwire/harness/pg"
	"deadwire/harness/pg/embedded"
	"deadwire/harness/rundir"
	"deadwire/harness/verdict"
	"deadwire/harness/witness"
	"deadwire/scenarios"
)

// Version is the version that reports show.
const Version = "0.1.0"

func main() {
	if code, launched := witness.Main(); launched {
		os.Exit(code)
	}
	if code, fetching := embedded.Main(); fetching {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == conveyorName {
		os.Exit(conveyor(os.Args[2:]))
	}
	os.Exit(run(os.Args[1:]))
}

// run executes the command line and returns the exit code.
func run(args []string) (code int) {
	defer func() {
		if cause := recover(); cause != nil {
			fmt.Fprintf(os.Stderr, "deadwire: a bug in deadwire: %v\n%s", cause, debug.Stack())
			code = verdict.ExitBug
		}
	}()
	// Without this a closed standard output would kill us in the middle of a run. It is
	// caught, not ignored: what is ignored is inherited by programs that we start.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := context.Background(), func() {}
	if len(args) == 0 || args[0] != execName { // exec passes signals on to the program
		ctx, stop = interruptible(ctx)
	}
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return verdict.ExitPass
	}
	var exit *exitError
	if errors.As(err, &exit) && exit.err == nil {
		return exit.code
	}
	if code = exitCode(ctx, err); code == verdict.ExitInterrupted && (errors.Is(err, context.Canceled) || errors.Is(err, errInterrupted)) {
		return code // it follows from the interruption, of which something has been said
	}
	fmt.Fprintln(os.Stderr, "deadwire: "+message(err))
	return code
}

// message says an error. When the record of a run could not be kept, everything that
// failed after it follows from that, so the first of it is all there is to say.
func message(err error) string {
	if disk, ok := errors.AsType[*rundir.Error](err); ok {
		return disk.Error() + ": " + disk.Mend()
	}
	return strings.TrimSpace(err.Error())
}

// interruptible returns a context that ends at the first SIGINT or SIGTERM; the
// second one kills, because then the user does not want to wait for healing.
func interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		if _, ok := <-signals; !ok {
			return
		}
		fmt.Fprintln(os.Stderr, "deadwire: interrupted; healing faults and keeping the record (again: stop at once)")
		cancel(errInterrupted)
		if _, ok := <-signals; ok {
			os.Exit(verdict.ExitInterrupted)
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
	}
}

var errInterrupted = errors.New("interrupted")

// exitError carries the exit code of the contract. Without an error of its own
// everything has been said already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *exitError) Unwrap() error { return e.err }

func usageError(format string, args ...any) error {
	return &exitError{code: verdict.ExitUsage, err: fmt.Errorf(format, args...)}
}

// exitCode maps an error to the contract's code.
func exitCode(ctx context.Context, err error) int {
	var (
		exit    *exitError
		disk    *rundir.Error
		missing *pg.MissingError
		old     *pg.TooOldError
		start   *pg.StartError
	)
	switch {
	case errors.Is(context.Cause(ctx), errInterrupted):
		return verdict.ExitInterrupted
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &disk), errors.As(err, &missing), errors.As(err, &old), errors.As(err, &start), errors.Is(err, scenarios.ErrEnvironment):
		return verdict.ExitEnvironment
	default:
		return verdict.ExitUsage
	}
}
