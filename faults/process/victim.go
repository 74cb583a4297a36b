package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"deadwire/faults"
	"deadwire/harness/event"
	"deadwire/harness/subject"
	"deadwire/harness/wait"
)

// find names a process of the subject: its first one (the coordinator), or a
// worker by its number.
func find(t faults.Target, process string, worker int) (int, error) {
	if process != "worker" {
		return t.Subject().PID(), nil
	}
	role := fmt.Sprintf("worker-%d", orOne(worker))
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

// stop halts a process and waits until it stands still.
func stop(ctx context.Context, t faults.Target, pid int) error {
	if err := t.Subject().SignalPID(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	return waitStopped(ctx, pid)
}

// thaw lets a process go on. One that is gone needs nothing.
func thaw(t faults.Target, pid int) error {
	err := t.Subject().SignalPID(pid, syscall.SIGCONT)
	if errors.Is(err, subject.ErrNotOurs) {
		return nil
	}
	return err
}

func waitStopped(ctx context.Context, pid int) error {
	return wait.For(ctx, fmt.Sprintf("pid %d to stand still", pid), func(context.Context) wait.Answer {
		state, err := stateOf(pid)
		switch {
		case err != nil:
			return wait.Never(err)
		case state == "T":
			return wait.Done()
		case state == "Z":
			return wait.Never(subject.ErrNotOurs) // it has ended, and its parent was not told yet
		default:
			return wait.NotYet("state %s", state)
		}
	})
}

// atMarker acts once the seam has said that the worker stands still, and
// returns the heal that stops waiting for it.
func atMarker(ctx context.Context, t faults.Target, act func(context.Context, faults.Marker) error) faults.Heal {
	// Its own life, not the injection's: the worker may be long in coming.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
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
	return faults.HealOnce(func(context.Context) error {
		t.Seam.Compute = nil
		cancel()
		err := <-done
		if errors.Is(err, context.Canceled) {
			return nil // it never came; the missing bite says so
		}
		return err
	})
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

// needsSeam returns nil, or why the subject cannot be told to misbehave.
func needsSeam(t faults.Target) error {
	switch {
	case t.Seam == nil:
		return errors.New("needs a subject with the fault seam (deadwire conveyor)")
	case t.Running() == nil:
		return errors.New("must be set before the subject starts")
	default:
		return nil
	}
}

func orOne(n int) int { return orDefault(n, 1) }

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}
