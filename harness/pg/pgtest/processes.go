package pgtest

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/poll"

	"deadwire/harness/pg"
)

// childrenOf returns the pids of a process's children, as ps sees them.
func childrenOf(pid int) []int {
	if pid == 0 {
		return nil
	}
	out, err := exec.Command("ps", "-o", "pid=", "--ppid", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil
	}
	var children []int
	for _, field := range strings.Fields(string(out)) {
		if child, err := strconv.Atoi(field); err == nil {
			children = append(children, child)
		}
	}
	return children
}

// awaitEnd waits until nothing of a server is left: its processes, or its container.
func (s *suite) awaitEnd(t *testing.T, address pg.Address, pids ...int) {
	t.Helper()
	if s.left == nil {
		awaitGone(t, pids...)
		return
	}
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		if left := s.left(t, address); len(left) > 0 {
			return poll.Continue("left: %v", left)
		}
		return poll.Success()
	}, poll.WithTimeout(patience))
}

// awaitGone waits until none of the processes exists.
func awaitGone(t *testing.T, pids ...int) {
	t.Helper()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		for _, pid := range pids {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				return poll.Continue("process %d is there", pid)
			}
		}
		return poll.Success()
	}, poll.WithTimeout(patience))
}
