package process

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"deadwire/faults"
)

func limitable() error { return nil }

// limitDescriptors lowers the soft limit of a process, says to what, and
// returns what restores it.
func limitDescriptors(t faults.Target, pid, spare int) (said string, restore func() error, err error) {
	if !t.Subject().Alive(pid) {
		return "", nil, fmt.Errorf("pid %d is no live process of the subject", pid)
	}
	open, err := openDescriptors(pid)
	if err != nil {
		return "", nil, err
	}
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		return "", nil, fmt.Errorf("read the limits of pid %d: %w", pid, err)
	}
	lower := unix.Rlimit{Cur: firstAbove(open, spare), Max: before.Max}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &lower, nil); err != nil {
		return "", nil, fmt.Errorf("limit the descriptors of pid %d: %w", pid, err)
	}
	s := t.Subject()
	restore = func() error {
		if !s.Alive(pid) {
			return nil // its limit is gone with it, and its pid may be another's
		}
		err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil)
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		return err
	}
	return fmt.Sprintf("%d are open, the limit is %d", len(open), lower.Cur), restore, nil
}

func openDescriptors(pid int) ([]int, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return nil, err
	}
	fds, err := p.FileDescriptors()
	if err != nil {
		return nil, err
	}
	open := make([]int, 0, len(fds))
	for _, fd := range fds {
		open = append(open, int(fd))
	}
	return open, nil
}

// firstAbove returns the limit under which exactly spare numbers are free: the
// limit bounds a descriptor's number, and the lowest free one is always taken.
func firstAbove(open []int, spare int) uint64 {
	limit := 0
	for free := 0; free < spare || slices.Contains(open, limit); limit++ {
		if !slices.Contains(open, limit) {
			free++
		}
	}
	return uint64(limit)
}
