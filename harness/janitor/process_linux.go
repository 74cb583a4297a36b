package janitor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// waitSlice is how often a wait for a process's end looks at its context, in
// milliseconds; the end itself is seen at once.
const waitSlice = 50

// bootID names this boot of the machine (random(4), "boot_id").
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// pidSpace names the namespace in which our pids have a meaning (pid_namespaces(7)).
func pidSpace() string {
	space, _ := os.Readlink("/proc/self/ns/pid")
	return space
}

// startTicks returns when a process started, in clock ticks since boot.
func startTicks(pid int) (uint64, error) {
	p, alive := look(pid)
	if !alive {
		return 0, ErrGone
	}
	return p.start, nil
}

// look reads fields 3, 4 and 22 of /proc/PID/stat (proc_pid_stat(5)). A zombie
// counts as gone: nothing of it can be killed any more.
func look(pid int) (process, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	// Counted from the last parenthesis, since a command may contain some.
	const state, ppid, start = 0, 1, 19
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) <= start || fields[state] == "Z" || fields[state] == "X" {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[ppid])
	if err != nil {
		return process{}, false
	}
	ticks, err := strconv.ParseUint(fields[start], 10, 64)
	return process{ppid: parent, start: ticks}, err == nil
}

func processes() map[int]process {
	table := map[int]process{}
	paths, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if p, alive := look(pid); alive {
			table[pid] = p
		}
	}
	return table
}

// carries reports whether a process was started with setting in its environment.
func carries(pid int, setting string) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		if string(entry) == setting {
			return true
		}
	}
	return false
}

// target is a process that is going to be killed. The pidfd names it for good:
// a signal can never reach a later process with the same pid (pidfd_open(2)).
type target struct{ pid, fd int }

// open returns the process, nil if it is not the one that started at start.
func open(pid int, start uint64) *target {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	// Looked at after the pidfd exists: what we look at is what we hold.
	if p, alive := look(pid); !alive || p.start != start {
		_ = unix.Close(fd) // nothing was written through it
		return nil
	}
	return &target{pid: pid, fd: fd}
}

func (t *target) signal(s unix.Signal) error { return unix.PidfdSendSignal(t.fd, s, nil, 0) }

func (t *target) close() { _ = unix.Close(t.fd) }

// wait returns when the process has ended, or says that it has not.
func (t *target) wait(ctx context.Context) error {
	for {
		polled := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(polled, waitSlice)
		switch {
		case n > 0:
			return nil
		case err != nil && err != unix.EINTR:
			return fmt.Errorf("wait for its end: %w", err)
		case ctx.Err() != nil:
			return fmt.Errorf("wait for its end after SIGKILL: %w", context.Cause(ctx))
		}
	}
}
