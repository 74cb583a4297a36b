// Package process holds the faults of the subject's processes: signals, a
// panic in compute, a memory ceiling. They act only on processes of the case's
// own subject, found by the role that their session or their own output names.
package process

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"deadwire/faults"
	"deadwire/harness/event"
	"deadwire/harness/wait"
)

// Signal sends a signal to one process of the subject. With `in: compute` the
// worker stops itself in the middle of its work first, so that the moment is
// exact.
type Signal struct {
	Signal  string `json:"signal" enum:"KILL,TERM,SEGV,ABRT,INT" doc:"which signal"`
	Process string `json:"process" enum:"coordinator,worker" doc:"which process"`
	Worker  int    `json:"worker,omitempty" doc:"number of the worker, from 1; default 1"`
	In      string `json:"in,omitempty" enum:"compute" doc:"where in its work a worker is hit"`
	Nth     int    `json:"nth,omitempty" doc:"in the compute of its Nth job, from 1; default 2"`
}

// Name implements faults.Fault.
func (Signal) Name() string { return "process.signal" }

// Arm implements faults.Armer: the worker must be told before it starts.
func (f Signal) Arm() bool { return f.In == "compute" }

// Available implements faults.Fault.
func (f Signal) Available(t faults.Target) error {
	if f.In == "compute" {
		return needsSeam(t)
	}
	if t.Subject() == nil {
		return faults.ErrNeedsSubject
	}
	return nil
}

// Expects implements faults.Expecter.
func (f Signal) Expects() []faults.Expectation {
	if f.Process == "coordinator" {
		return []faults.Expectation{{Rule: "process.died"}}
	}
	return []faults.Expectation{{Rule: "process.died", Role: "worker-*"}}
}

// Inject implements faults.Fault.
func (f Signal) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	signal := unix.SignalNum("SIG" + f.Signal)
	if signal == 0 {
		return nil, fmt.Errorf("unknown signal %q", f.Signal)
	}
	if f.In == "compute" {
		t.Seam.Compute = &faults.ComputeAct{ID: t.ID, Do: "stop", Worker: orOne(f.Worker), Nth: orDefault(f.Nth, 2)}
		return atMarker(ctx, t, func(ctx context.Context, m faults.Marker) error {
			return f.send(t, rec, m.PID, signal)
		}), nil
	}
	pid, err := f.find(t)
	if err != nil {
		return nil, err
	}
	return func(context.Context) error { return nil }, f.send(t, rec, pid, signal)
}

func (f Signal) send(t faults.Target, rec event.Recorder, pid int, signal syscall.Signal) error {
	if err := t.Subject().SignalPID(pid, signal); err != nil {
		return err
	}
	t.Bit(rec, f, event.SessionID{}, pid, f.Signal)
	if signal == syscall.SIGKILL {
		return nil
	}
	// A stopped process takes any other signal only once it goes on.
	return t.Subject().SignalPID(pid, syscall.SIGCONT)
}

// find names the process by the session that it opened.
func (f Signal) find(t faults.Target) (int, error) {
	if f.Process == "coordinator" {
		return t.Subject().PID(), nil
	}
	role := fmt.Sprintf("worker-%d", orOne(f.Worker))
	for _, e := range t.Journal.Events() {
		if pid, ok := pidOfReady(e, role); ok && t.Subject().Alive(pid) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no live process is known for %s", role)
}

// pidOfReady reads conveyor's own log line about a ready worker.
func pidOfReady(e event.Event, role string) (int, bool) {
	if e.Kind != event.SubjectOutput || !strings.HasPrefix(e.Output.Text, "{") {
		return 0, false
	}
	var line struct {
		Msg    string `json:"msg"`
		Worker int    `json:"worker"`
		PID    int    `json:"pid"`
	}
	if json.Unmarshal([]byte(e.Output.Text), &line) != nil || line.Msg != "worker ready" {
		return 0, false
	}
	return line.PID, fmt.Sprintf("worker-%d", line.Worker) == role
}

// Panic makes a worker panic in the compute of one job.
type Panic struct {
	Worker int `json:"worker,omitempty" doc:"number of the worker, from 1; default 1"`
	Nth    int `json:"nth,omitempty" doc:"in the compute of its Nth job, from 1; default 2"`
}

// Name implements faults.Fault.
func (Panic) Name() string { return "process.panic" }

// Arm implements faults.Armer.
func (Panic) Arm() bool { return true }

// Available implements faults.Fault.
func (Panic) Available(t faults.Target) error { return needsSeam(t) }

// Expects implements faults.Expecter.
func (Panic) Expects() []faults.Expectation {
	return []faults.Expectation{{Rule: "process.died", Role: "worker-*"}}
}

// Inject implements faults.Fault. The marker line of the seam is its bite.
func (f Panic) Inject(_ context.Context, t faults.Target, _ event.Recorder) (faults.Heal, error) {
	t.Seam.Compute = &faults.ComputeAct{ID: t.ID, Do: "panic", Worker: orOne(f.Worker), Nth: orDefault(f.Nth, 2)}
	return func(context.Context) error { t.Seam.Compute = nil; return nil }, nil
}

func needsSeam(t faults.Target) error {
	if t.Seam == nil {
		return fmt.Errorf("needs a subject with the fault seam (deadwire conveyor)")
	}
	return nil
}

// atMarker acts once the seam has said that the worker stands still, and
// returns the heal that stops waiting for it.
func atMarker(ctx context.Context, t faults.Target, act func(context.Context, faults.Marker) error) faults.Heal {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		marker, err := awaitMarker(ctx, t)
		if err == nil {
			err = waitStopped(ctx, marker.PID)
		}
		if err == nil {
			err = act(ctx, marker)
		}
		done <- err
	}()
	healed := false
	return func(context.Context) error {
		if healed {
			return nil
		}
		healed = true
		cancel()
		err := <-done
		if ctx.Err() != nil && err != nil {
			return nil // it never came; the missing bite says so
		}
		return err
	}
}

func awaitMarker(ctx context.Context, t faults.Target) (faults.Marker, error) {
	var marker faults.Marker
	_, err := t.Journal.Await(ctx, 0, "the seam's marker", func(e event.Event) bool {
		m, ok := MarkerOf(e)
		if ok && m.ID == t.ID {
			marker = m
			return true
		}
		return false
	})
	return marker, err
}

// MarkerOf reads a marker line of the seam out of the subject's output.
func MarkerOf(e event.Event) (faults.Marker, bool) {
	if e.Kind != event.SubjectOutput {
		return faults.Marker{}, false
	}
	return faults.ParseMarker(e.Output.Text)
}

func waitStopped(ctx context.Context, pid int) error {
	return wait.For(ctx, fmt.Sprintf("pid %d to stand still", pid), func(context.Context) wait.Answer {
		state, err := stateOf(pid)
		switch {
		case err != nil:
			return wait.Never(err)
		case state == "T":
			return wait.Done()
		default:
			return wait.NotYet("state %s", state)
		}
	})
}

func orOne(n int) int { return orDefault(n, 1) }

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}
