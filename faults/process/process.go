// Package process holds the faults of the subject's processes: signals and
// freezes, ends and panics in compute, ceilings of memory and descriptors, a slow
// start, an orphaned pool. They act only on processes of the case's
// own subject, found by the role that their session or their own output names.
package process

import (
	"context"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"deadwire/faults"
	"deadwire/harness/event"
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
	return t.Running()
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
	pid, err := find(t, f.Process, f.Worker)
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
