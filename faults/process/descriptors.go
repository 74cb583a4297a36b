package process

import (
	"context"

	"deadwire/faults"
	"deadwire/harness/event"
)

// Descriptors lowers a running process's limit of open descriptors to what it
// has open now, and a few to spare (RLIMIT_NOFILE, by prlimit(2)). Healing
// restores the limit.
type Descriptors struct {
	Process string `json:"process" enum:"coordinator,worker" doc:"which process; coordinator is the first process of any subject"`
	Worker  int    `json:"worker,omitempty" doc:"number of the worker, from 1; default 1"`
	Spare   int    `json:"spare,omitempty" doc:"how many more it may open; default none"`
}

// Name implements faults.Fault.
func (Descriptors) Name() string { return "process.descriptors" }

// Available implements faults.Fault.
func (Descriptors) Available(t faults.Target) error {
	if err := limitable(); err != nil {
		return err
	}
	return t.Running()
}

// Inject implements faults.Fault.
func (f Descriptors) Inject(_ context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	pid, err := find(t, f.Process, f.Worker)
	if err != nil {
		return nil, err
	}
	limit, restore, err := limitDescriptors(t, pid, f.Spare)
	if err != nil {
		return nil, err
	}
	t.Bit(rec, f, event.SessionID{}, pid, limit)
	return faults.HealOnce(func(context.Context) error { return restore() }), nil
}
