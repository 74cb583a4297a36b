//go:build !linux

package subject

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"deadwire/harness/event"
)

// tree, where there is no procfs and no subreaper, knows the root only, and
// ends what stayed in its process group.
type tree struct {
	recorder event.Recorder
	owner    Owner
	hide     secrets

	mu   sync.Mutex
	root int
	gone bool
}

func newTree(recorder event.Recorder, owner Owner) (*tree, error) {
	return &tree{recorder: recorder, owner: owner, hide: newSecrets()}, nil
}

func (t *tree) onKilled(func()) {}

func (t *tree) mark() string { return "DEADWIRE_SUBJECT=1" }

func (t *tree) plant(pid int, argv []string, _ bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.root = pid
	if t.owner != nil {
		if err := t.owner.OwnProcess(pid); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.recorder.Record(event.Event{
				Kind: event.WitnessFailed, PID: pid,
				Step: &event.Step{Name: "own process", Note: err.Error()},
			})
		}
	}
	t.recorder.Record(event.Event{
		Kind: event.ProcessStarted, PID: pid,
		Process: &event.Process{PPID: syscall.Getpid(), Argv: t.hide.argv(argv)},
	})
}

func (t *tree) ended(pid int, at time.Duration, exit *Exit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone = true
	ended := &event.Process{}
	if exit.Signal != 0 {
		ended.Signal = signalName(exit.Signal)
	} else {
		ended.Code = &exit.Code
	}
	t.recorder.Record(event.Event{At: at, Kind: event.ProcessExited, PID: pid, Process: ended})
}

// Observe implements witness.Tracker.
func (t *tree) Observe(int) {}

// Execing implements witness.Tracker.
func (t *tree) Execing(int) {}

// Exiting implements witness.Tracker.
func (t *tree) Exiting(int, int) {}

// PIDs implements witness.Tracker.
func (t *tree) PIDs() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.root == 0 || t.gone {
		return nil
	}
	return []int{t.root}
}

// Refresh implements witness.Tracker.
func (t *tree) Refresh() []int { return t.PIDs() }

func (t *tree) alive(pid int) bool { return t.signal(pid, 0) == nil }

func (t *tree) signal(pid int, sig syscall.Signal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if pid != t.root || t.gone {
		return ErrNotOurs
	}
	return syscall.Kill(pid, sig)
}

func (t *tree) signalGroup(sig syscall.Signal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.root == 0 {
		return ErrNotOurs
	}
	return syscall.Kill(-t.root, sig)
}

func (t *tree) killAll() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := syscall.Kill(-t.root, syscall.SIGKILL)
	if t.gone && errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return []int{t.root}
}

func (t *tree) adopt() {}

func (t *tree) launched() {}

func (t *tree) start() {}

func (t *tree) stop() error { return nil }

func adoptOrphans() error { return nil }

func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
