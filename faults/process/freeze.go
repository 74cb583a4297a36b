package process

import (
	"context"
	"errors"
	"syscall"
	"time"

	"deadwire/faults"
	"deadwire/harness/event"
)

// Freeze stops a process without ending it (SIGSTOP), as a debugger, a paused
// container or heavy swapping does: its sessions stay open and say nothing. It
// goes on (SIGCONT) after for_ms, or when the fault is healed.
type Freeze struct {
	Process string `json:"process" enum:"coordinator,worker" doc:"which process; coordinator is the first process of any subject"`
	Worker  int    `json:"worker,omitempty" doc:"number of the worker, from 1; default 1"`
	In      string `json:"in,omitempty" enum:"compute" doc:"where in its work a worker is hit"`
	Nth     int    `json:"nth,omitempty" doc:"in the compute of its Nth job, from 1; default 2"`
	ForMS   int    `json:"for_ms,omitempty" doc:"let it go on after that many milliseconds; default when it is healed"`
}

// Name implements faults.Fault.
func (Freeze) Name() string { return "process.freeze" }

// Arm implements faults.Armer: the worker must be told before it starts.
func (f Freeze) Arm() bool { return f.In == "compute" }

// Available implements faults.Fault.
func (f Freeze) Available(t faults.Target) error {
	if f.Arm() {
		return needsSeam(t)
	}
	return t.Running()
}

// Inject implements faults.Fault.
func (f Freeze) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	if f.Arm() {
		t.Seam.Compute = &faults.ComputeAct{ID: t.ID, Do: "stop", Worker: orOne(f.Worker), Nth: orDefault(f.Nth, 2)}
		return atMarker(ctx, t, func(ctx context.Context, m faults.Marker) error {
			t.Bit(rec, f, event.SessionID{}, m.PID, "stands still in compute")
			return f.thawLater(ctx, t, m.PID)
		}), nil
	}
	pid, err := find(t, f.Process, f.Worker)
	if err != nil {
		return nil, err
	}
	living, cancel := context.WithCancel(context.WithoutCancel(ctx))
	thawed := make(chan error, 1)
	heal := faults.HealOnce(func(context.Context) error {
		cancel()
		return <-thawed
	})
	if err := stop(ctx, t, pid); err != nil {
		cancel()
		return heal, errors.Join(err, thaw(t, pid), closed(thawed))
	}
	t.Bit(rec, f, event.SessionID{}, pid, "stands still")
	go func() { thawed <- f.thawLater(living, t, pid) }()
	return heal, nil
}

// closed lets a heal that waits for a thaw through.
func closed(thawed chan error) error {
	close(thawed)
	return nil
}

// thawLater lets the process go on after its time, or when ctx ends.
func (f Freeze) thawLater(ctx context.Context, t faults.Target, pid int) error {
	var over <-chan time.Time
	if f.ForMS > 0 {
		over = time.After(time.Duration(f.ForMS) * time.Millisecond)
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
	return thaw(t, pid)
}

// Orphan kills the subject's first process while its other processes stand
// still, so that they are left for certain, with whatever they hold. Healing
// lets them go on; what they then do about their dead coordinator is theirs.
type Orphan struct{}

// Name implements faults.Fault.
func (Orphan) Name() string { return "process.orphan" }

// Available implements faults.Fault.
func (Orphan) Available(t faults.Target) error { return t.Running() }

// Expects implements faults.Expecter.
func (Orphan) Expects() []faults.Expectation { return []faults.Expectation{{Rule: "process.died"}} }

// Inject implements faults.Fault.
func (f Orphan) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	root := t.Subject().PID()
	var left []int
	heal := faults.HealOnce(func(context.Context) error {
		var errs []error
		for _, pid := range left {
			errs = append(errs, thaw(t, pid))
		}
		return errors.Join(errs...)
	})
	for _, pid := range t.Subject().PIDs() {
		if pid == root {
			continue
		}
		left = append(left, pid)
		if err := stop(ctx, t, pid); err != nil && t.Subject().Alive(pid) {
			return heal, err // one that ends by itself just now cannot be left behind
		}
	}
	if len(left) == 0 {
		return heal, errors.New("the subject has no other process that could be left")
	}
	if err := t.Subject().Signal(syscall.SIGKILL); err != nil {
		return heal, err
	}
	if _, err := t.Subject().Wait(ctx); err != nil {
		return heal, err
	}
	for _, pid := range left {
		if t.Subject().Alive(pid) {
			t.Bit(rec, f, event.SessionID{}, pid, "left behind")
		}
	}
	return heal, nil
}

// SlowStart makes each further process of the subject stand still for a while
// just after it has started, as a cold disk or a busy machine does.
type SlowStart struct {
	MS int `json:"ms" doc:"how long, in milliseconds"`
}

// Name implements faults.Fault.
func (SlowStart) Name() string { return "process.slow-start" }

// Arm implements faults.Armer: it must be there before a process starts.
func (SlowStart) Arm() bool { return true }

// Available implements faults.Fault.
func (SlowStart) Available(t faults.Target) error {
	if t.Subject == nil || t.Journal == nil {
		return faults.ErrNeedsSubject
	}
	return nil
}

// Inject implements faults.Fault.
func (f SlowStart) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	living, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	since := t.Journal.Last()
	go func() {
		defer close(done)
		for {
			e, err := t.Journal.Await(living, since, "a process", func(e event.Event) bool { return e.Kind == event.ProcessStarted })
			if err != nil {
				return
			}
			since = e.Seq
			f.hold(living, t, rec, e.PID)
		}
	}()
	return faults.HealOnce(func(context.Context) error {
		cancel()
		<-done
		return nil
	}), nil
}

// hold makes one process stand still. One that has ended already is let be.
func (f SlowStart) hold(ctx context.Context, t faults.Target, rec event.Recorder, pid int) {
	s := t.Subject()
	if s == nil || pid == s.PID() || stop(ctx, t, pid) != nil {
		return
	}
	t.Bit(rec, f, event.SessionID{}, pid, "stands still at its start")
	_ = Freeze{ForMS: max(f.MS, 1)}.thawLater(ctx, t, pid) // fails only on a process that is gone
}
