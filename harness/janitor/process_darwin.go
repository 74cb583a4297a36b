package janitor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// pause between two looks at a process that is about to end
const pause = 10 * time.Millisecond

// bootID names this boot of the machine (sysctl kern.bootsessionuuid).
func bootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}

// pidSpace is empty: macOS has a single space of pids.
func pidSpace() string { return "" }

// startTicks returns when a process started, in microseconds of wall time.
func startTicks(pid int) (uint64, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid {
		return 0, ErrGone
	}
	return micros(info), nil
}

func micros(info *unix.KinfoProc) uint64 {
	started := info.Proc.P_starttime
	return uint64(started.Sec)*1e6 + uint64(started.Usec)
}

func processes() map[int]process {
	table := map[int]process{}
	list, _ := unix.SysctlKinfoProcSlice("kern.proc.all")
	for i := range list {
		table[int(list[i].Proc.P_pid)] = process{ppid: int(list[i].Eproc.Ppid), start: micros(&list[i])}
	}
	return table
}

// carries is always false: macOS shows no environments of other processes that
// could be relied on, so that only recorded processes and their descendants are
// found.
func carries(int, string) bool { return false }

// target is a process that is going to be killed. macOS has no pidfd, so that
// the start time is looked at again before each signal.
type target struct {
	pid   int
	start uint64
}

func open(pid int, start uint64) *target {
	t := &target{pid: pid, start: start}
	if !t.alive() {
		return nil
	}
	return t
}

func (t *target) alive() bool {
	start, err := startTicks(t.pid)
	return err == nil && start == t.start
}

func (t *target) signal(s unix.Signal) error {
	if !t.alive() {
		return ErrGone
	}
	return unix.Kill(t.pid, s)
}

func (t *target) close() {}

func (t *target) wait(ctx context.Context) error {
	timer := time.NewTicker(pause)
	defer timer.Stop()
	for {
		if err := unix.Kill(t.pid, 0); errors.Is(err, unix.ESRCH) || !t.alive() {
			return nil
		}
		select {
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for its end after SIGKILL: %w", context.Cause(ctx))
		}
	}
}
