package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/term"

	"deadwire/harness"
	"deadwire/harness/diagnose"
	"deadwire/harness/event"
	"deadwire/harness/rundir"
	"deadwire/harness/subject"
	"deadwire/harness/tap"
	"deadwire/harness/wait"
	"deadwire/harness/witness"
	"deadwire/scenarios"
)

// bounds of what follows the program's end
const (
	// endMax is how long processes have to end after they were asked to.
	endMax = 5 * time.Second
	// settleMax is how long sessions may take to end once all processes are gone.
	settleMax = 10 * time.Second
)

// execution is one use of exec: a program and how it is watched.
type execution struct {
	flags   *execFlags
	session *session
	argv    []string
	steps   []scenarios.FaultStep
	signals *signals
}

// executed is what a run of the program came to.
type executed struct {
	exit     subject.Exit
	report   diagnose.Report
	events   []event.Event
	dir      string
	lastLine string // of what it wrote to standard error, if that was read
	faults   []string
	idle     []string // of the faults, those that did not act
	exact    bool
}

// do runs the program once, from a fresh lane to its explained end.
func (e *execution) do(ctx context.Context, t trial) (out executed, err error) {
	db, err := e.session.database(ctx)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, db.Close(context.WithoutCancel(ctx))) }()
	if out.dir, err = e.session.dir.Case(execName, t.name); err != nil {
		return out, err
	}
	lane, err := e.lane(ctx, db, out.dir, t)
	if err != nil {
		return out, environment(err)
	}
	defer func() { err = errors.Join(err, lane.Close(ctx)) }()
	if !t.second {
		server := e.session.postgres()
		fmt.Fprintf(os.Stderr, "deadwire: postgres %s (%s), tap at %s, record in %s\n", server.Version, server.Provider, lane.Front.Addr(), e.session.dir.Path())
	}
	if err := e.observe(ctx, lane, t, &out); err != nil {
		return out, err
	}
	out.events = lane.Journal.Events()
	out.report = diagnose.Explain(out.events)
	out.exact = lane.Witness.Certainty() == witness.Exact
	return out, nil
}

// lane builds the data path: with Toxiproxy and the back tap only if faults are
// asked for.
func (e *execution) lane(ctx context.Context, db *harness.Database, dir string, t trial) (lane *harness.Lane, err error) {
	var redirect detour
	w := witness.Options{
		Sends: e.flags.sends(), TLS: e.flags.tls != string(tap.TLSRefuse),
		RefuseRing: e.flags.noRing, Disabled: e.flags.witness == "holders", Blind: e.flags.witness == "defer" || e.flags.witness == "none",
		Decide:   func(q witness.Question) witness.Decision { return e.decide(lane, t, q) },
		Redirect: func(remote string) string { return redirect.to(remote) },
	}
	lane, err = e.session.rig.NewLane(ctx, harness.LaneConfig{
		Name: execName + "-" + t.name, Database: db, Dir: dir, Witness: w, TLS: tap.TLSMode(e.flags.tls),
		Watch: len(e.steps) == 0, Socket: true, Messages: e.flags.messages,
		ServerTLS: e.flags.toServer(),
	})
	if err != nil {
		return nil, err
	}
	// No process runs yet, so nobody asks before this is set.
	if redirect, err = e.flags.detours(lane); err != nil {
		return nil, errors.Join(err, lane.Close(ctx))
	}
	if e.flags.witness == "defer" {
		lane.Defer()
	}
	return lane, nil
}

// sends says which sends are looked at. Every one costs a round trip through the
// supervisor, which is why only those that can end a session are by default.
func (f *execFlags) sends() witness.SendFilter {
	if f.every {
		return witness.Senders
	}
	return witness.Endings
}

// toServer is how the tap speaks TLS with the server; nil for not at all.
func (f *execFlags) toServer() *tls.Config {
	if !f.serverTLS {
		return nil
	}
	return &tls.Config{InsecureSkipVerify: true} // as sslmode=require does: the user named the address
}

// observe runs the program on the lane until nothing of it is left.
func (e *execution) observe(ctx context.Context, lane *harness.Lane, t trial, out *executed) (err error) {
	var started atomic.Pointer[subject.Instance] // instance, for faults that ask from elsewhere
	inject := newInjector(e.steps, lane, started.Load, e.session.lease.Own)
	running, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		err = errors.Join(err, inject.heal(ctx))
	}()
	if err := inject.arm(running); err != nil {
		return err
	}
	command, done, err := e.command(lane, t, out.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	instance, err := lane.Start(ctx, command)
	if err != nil {
		return startError(err)
	}
	started.Store(instance)
	defer func() { err = errors.Join(err, instance.Close(ctx)) }()
	switch {
	case !t.guard:
	case instance.Certainty() == witness.Exact:
		lane.DeferUnseen()
	default:
		lane.Defer()
	}
	e.signals.to(instance)
	defer e.signals.to(nil)
	inject.spring(running)
	if out.exit, err = instance.Wait(ctx); err != nil {
		return err
	}
	e.leave(ctx, lane, instance)
	stop()
	err = errors.Join(inject.heal(ctx), instance.Close(ctx))
	settling, cancel := context.WithTimeout(ctx, settleMax)
	defer cancel()
	_ = lane.Settle(settling) // what has not ended is not in the report
	if lines := instance.Tail(); len(lines) > 0 {
		out.lastLine = lines[len(lines)-1].Text
	}
	out.faults, out.idle = inject.bitten()
	return err
}

// command is the program with its streams. What it writes to standard error is
// copied into the record, unless it shares a file with standard output, where
// the order of the two would suffer, or is used from a terminal.
func (e *execution) command(lane *harness.Lane, t trial, dir string) (c subject.Command, done func() error, err error) {
	env, err := e.flags.environment(lane, []string{e.session.lease.Env()})
	if err != nil {
		return c, nil, err
	}
	c = subject.Command{Path: e.argv[0], Args: e.argv[1:], Env: env}
	log, err := os.OpenFile(filepath.Join(dir, rundir.SubjectName), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return c, nil, environment(err)
	}
	done = log.Close
	if t.second {
		c.Stdin, c.Stdout, c.Stderr = rewound(), log, log
		return c, done, nil
	}
	c.Stdin, c.OwnStdout = os.Stdin, os.Stdout
	switch {
	case term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())):
		c.OwnStderr, c.Terminal = os.Stderr, true
		done = func() error { return errors.Join(log.Close(), subject.Reclaim(os.Stdin)) }
	case sameFile(os.Stdout, os.Stderr):
		c.OwnStderr = os.Stderr
	default:
		c.Stderr = io.MultiWriter(os.Stderr, log)
	}
	return c, done, nil
}

// rewound returns standard input from its beginning, if it is a file; nil otherwise.
func rewound() *os.File {
	if _, err := os.Stdin.Seek(0, io.SeekStart); err != nil {
		return nil
	}
	return os.Stdin
}

func sameFile(a, b *os.File) bool {
	one, err := a.Stat()
	if err != nil {
		return false
	}
	other, err := b.Stat()
	return err == nil && os.SameFile(one, other)
}

// leave waits for the processes that outlive the program: as long as they hold
// sessions, and else for the time that the user gave. A signal ends the wait.
func (e *execution) leave(ctx context.Context, lane *harness.Lane, i *subject.Instance) {
	said, began := false, time.Now()
	idle := began
	_ = wait.For(ctx, "the program's processes to leave", func(context.Context) wait.Answer {
		left := i.PIDs()
		if len(left) == 0 {
			return wait.Done()
		}
		select {
		case <-e.signals.left:
			return wait.Done()
		default:
		}
		if len(lane.Front.Sessions()) > 0 {
			idle = time.Now()
		}
		if !said && time.Since(began) > time.Second {
			said = true
			fmt.Fprintf(os.Stderr, "deadwire: the program has ended, %s; waiting for them (interrupt to end them)\n", sayLeft(left))
		}
		if time.Since(idle) > e.flags.linger {
			return wait.Done()
		}
		return wait.NotYet("%v", left)
	})
	ask(ctx, i)
}

// sayLeft names the processes that go on, as long as they can be taken in.
func sayLeft(pids []int) string {
	const few = 12
	if len(pids) > few {
		return fmt.Sprintf("%d of its processes go on", len(pids))
	}
	return fmt.Sprintf("its processes %v go on", pids)
}

// ask asks what is left to end, and gives it some time.
func ask(ctx context.Context, i *subject.Instance) {
	left := i.PIDs()
	if len(left) == 0 {
		return
	}
	for _, pid := range left {
		_ = i.SignalPID(pid, syscall.SIGTERM) // gone is as good
	}
	bounded, cancel := context.WithTimeout(ctx, endMax)
	defer cancel()
	_ = wait.For(bounded, "processes to end", func(context.Context) wait.Answer { // those that do not are killed
		if left := i.PIDs(); len(left) > 0 {
			return wait.NotYet("%v", left)
		}
		return wait.Done()
	})
}
