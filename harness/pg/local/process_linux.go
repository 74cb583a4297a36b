package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"deadwire/harness/pg"
)

// childAttributes makes a child the leader of its own process group, as the
// given user, that gets the signal when we die. The kernel sends it when the
// *thread* that started the child ends (prctl(2), PR_SET_PDEATHSIG), so the
// caller keeps that thread.
func childAttributes(as *account, onOurDeath syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as.credential(), Pdeathsig: onOurDeath}
}

// fields of /proc/PID/stat, counted from the state, which follows the name's
// closing bracket; proc_pid_stat(5) counts it as the third.
const (
	statState   = 0
	statParent  = 1
	statStarted = 19
)

type processStat struct {
	state   byte
	parent  int
	started uint64
}

func readStat(pid int) (processStat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processStat{}, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= statStarted {
		return processStat{}, fmt.Errorf("read /proc/%d/stat: %d fields", pid, len(fields))
	}
	parent, parentErr := strconv.Atoi(string(fields[statParent]))
	started, startedErr := strconv.ParseUint(string(fields[statStarted]), 10, 64)
	return processStat{state: fields[statState][0], parent: parent, started: started}, errors.Join(parentErr, startedErr)
}

func identify(pid int) identity {
	stat, err := readStat(pid)
	if err != nil {
		return identity{PID: pid}
	}
	return identity{PID: pid, Started: stat.started}
}

// alive reports whether that very process runs; a zombie does not.
func alive(p identity) bool {
	stat, err := readStat(p.PID)
	return err == nil && stat.started == p.Started && stat.state != 'Z' && stat.state != 'X'
}

// killChild kills a child of the postmaster. A pidfd keeps pointing at the
// process that was looked at, so the signal cannot reach one that has since
// been given the same pid.
func killChild(postmaster, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return &pg.NotBackendError{PID: pid}
	}
	defer func() { _ = unix.Close(fd) }()
	stat, err := readStat(pid)
	if err != nil || stat.parent != postmaster {
		return &pg.NotBackendError{PID: pid}
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		return fmt.Errorf("kill backend %d: %w", pid, err)
	}
	return nil
}
