package process

import (
	"context"
	"fmt"

	"deadwire/faults"
	"deadwire/harness/event"
)

// Exit makes a worker leave with an exit code in the compute of one job,
// without a word to its coordinator and without closing anything in order.
type Exit struct {
	Code   int `json:"code" doc:"exit code, from 0 to 255"`
	Worker int `json:"worker,omitempty" doc:"number of the worker, from 1; default 1"`
	Nth    int `json:"nth,omitempty" doc:"in the compute of its Nth job, from 1; default 2"`
}

// Name implements faults.Fault.
func (Exit) Name() string { return "process.exit" }

// Arm implements faults.Armer.
func (Exit) Arm() bool { return true }

// Available implements faults.Fault.
func (Exit) Available(t faults.Target) error { return needsSeam(t) }

// Expects implements faults.Expecter.
func (Exit) Expects() []faults.Expectation {
	return []faults.Expectation{{Rule: "process.died", Role: "worker-*"}}
}

// Inject implements faults.Fault. The marker line of the seam is its bite.
func (f Exit) Inject(_ context.Context, t faults.Target, _ event.Recorder) (faults.Heal, error) {
	if f.Code < 0 || f.Code > 255 {
		return nil, fmt.Errorf("code: %d: want 0 to 255", f.Code)
	}
	return tell(t, faults.ComputeAct{Do: "exit", Worker: orOne(f.Worker), Nth: orDefault(f.Nth, 2), Code: f.Code}), nil
}

// CPU makes a worker burn processor time before the compute of one job.
type CPU struct {
	MS     int `json:"ms" doc:"milliseconds of processor time"`
	Worker int `json:"worker,omitempty" doc:"number of the worker, from 1; default 1"`
	Nth    int `json:"nth,omitempty" doc:"in the compute of its Nth job, from 1; default 2"`
}

// Name implements faults.Fault.
func (CPU) Name() string { return "process.cpu" }

// Arm implements faults.Armer.
func (CPU) Arm() bool { return true }

// Available implements faults.Fault.
func (CPU) Available(t faults.Target) error { return needsSeam(t) }

// Inject implements faults.Fault. The marker line of the seam is its bite.
func (f CPU) Inject(_ context.Context, t faults.Target, _ event.Recorder) (faults.Heal, error) {
	return tell(t, faults.ComputeAct{Do: "burn", Worker: orOne(f.Worker), Nth: orDefault(f.Nth, 2), MS: f.MS}), nil
}

// tell gives the subject's seam an act, and returns the heal that takes it back.
func tell(t faults.Target, act faults.ComputeAct) faults.Heal {
	act.ID = t.ID
	t.Seam.Compute = &act
	return func(context.Context) error {
		t.Seam.Compute = nil
		return nil
	}
}
