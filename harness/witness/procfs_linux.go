package witness

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// procfs is read here by hand: the calls stand between a stopped process and its
// next instruction, and a general parser costs several times as much.

// threadGroup returns the pid of the process that a thread belongs to.
func threadGroup(tid int) (int, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/status")
	if err != nil {
		return 0, fmt.Errorf("read status of thread %d: %w", tid, err)
	}
	_, rest, found := bytes.Cut(status, []byte("\nTgid:\t"))
	number, _, ended := bytes.Cut(rest, []byte("\n"))
	pid, err := strconv.Atoi(string(number))
	if !found || !ended || err != nil {
		return 0, fmt.Errorf("status of thread %d names no thread group", tid)
	}
	return pid, nil
}

// socketInode returns the inode behind a descriptor of a thread; false when it
// is no socket, or gone.
func socketInode(tid, fd int) (uint64, bool) {
	target, err := os.Readlink("/proc/" + strconv.Itoa(tid) + "/fd/" + strconv.Itoa(fd))
	if err != nil {
		return 0, false
	}
	return parseSocket(target)
}

func parseSocket(target string) (uint64, bool) {
	number, isSocket := strings.CutPrefix(target, "socket:[")
	if !isSocket {
		return 0, false
	}
	inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64)
	return inode, err == nil
}

// scanHolders returns, for each of the inodes, which of pids have a descriptor
// for it, in ascending order. Processes that cannot be read hold nothing.
func scanHolders(pids []int, inodes map[uint64]struct{}) map[uint64][]int {
	found := make(map[uint64][]int, len(inodes))
	for _, pid := range pids {
		for inode := range socketsOf(pid) {
			if _, wanted := inodes[inode]; wanted {
				found[inode] = append(found[inode], pid)
			}
		}
	}
	for _, holders := range found {
		slices.Sort(holders)
	}
	return found
}

func socketsOf(pid int) map[uint64]struct{} {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid) + "/fd")
	if err != nil {
		return nil
	}
	defer dir.Close() //nolint:errcheck // read only
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	sockets := map[uint64]struct{}{}
	var target [64]byte
	fd := int(dir.Fd())
	for _, name := range names {
		n, err := unix.Readlinkat(fd, name, target[:])
		if err != nil {
			continue
		}
		if inode, isSocket := parseSocket(string(target[:n])); isSocket {
			sockets[inode] = struct{}{}
		}
	}
	return sockets
}
