package subject

import (
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// process is one process of the tree.
type process struct {
	pid, ppid int
	start     uint64   // with the pid, an identity
	image     uint64   // of the program that was recorded last
	pidfd     int      // -1 when the kernel gave none: then it is polled
	root      bool     // waited for by the instance, not here
	launcher  bool     // still the launcher: its exec to the announced program is no news
	announced []string // of the root: the command line that it was started with
	became    bool     // of the root: it was seen to be that program
	blank     bool     // was met within an exec, its command line not told yet
	execing   bool     // asked for another program, not seen to have become it
	exited    bool     // recorded; kept until somebody has reaped it
	hint      int      // code given to exit_group, -1 if none was seen
}

// unknownStatus says that nobody could tell how a process ended.
const unknownStatus = syscall.WaitStatus(0xffffffff)

// openPidfd holds on to a process; start makes sure that it is the one meant.
func openPidfd(pid int, start uint64) int {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1
	}
	if s, err := readStat(pid); err != nil || s.start != start {
		_ = unix.Close(fd)
		return -1
	}
	return fd
}

func (p *process) closePidfd() {
	if p.pidfd >= 0 {
		_ = unix.Close(p.pidfd)
		p.pidfd = -1
	}
}

// ready reports whether the process has exited, by its pidfd.
func (p *process) ready() bool {
	fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1 && fds[0].Revents&unix.POLLIN != 0
}

// gone reports whether nothing of the process is left, not even a zombie.
func (p *process) gone() bool {
	s, err := readStat(p.pid)
	return err != nil || s.start != p.start
}

// reap waits for this process if it became our child: never for any other, so
// that no exit is stolen from os/exec.
func (p *process) reap() (syscall.WaitStatus, bool) {
	if p.pidfd < 0 {
		return p.reapByNumber()
	}
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PIDFD, p.pidfd, &info, unix.WEXITED|unix.WNOHANG, nil)
	if err != nil || info.Signo == 0 {
		return unknownStatus, false
	}
	// si_status of a SIGCHLD: behind three ints, padding, pid and uid.
	code := *(*int32)(unsafe.Add(unsafe.Pointer(&info), 24))
	const exited = 1 // CLD_EXITED
	if info.Code == exited {
		return syscall.WaitStatus(code << 8), true
	}
	return syscall.WaitStatus(code), true
}

func (p *process) reapByNumber() (syscall.WaitStatus, bool) {
	s, err := readStat(p.pid)
	if err != nil || s.start != p.start || s.ppid != syscall.Getpid() {
		return unknownStatus, false
	}
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(p.pid, &status, syscall.WNOHANG, nil)
	return status, err == nil && pid == p.pid
}

// status tells how a process that has exited ended, and whether it was reaped
// in the asking. The sources, best first: our own wait, the zombie's stat, the
// pidfd (from Linux 6.15, once the parent has reaped), the code it gave to exit_group.
func (p *process) status() (status syscall.WaitStatus, reaped bool) {
	if status, reaped = p.reap(); reaped {
		return status, true
	}
	if s, err := readStat(p.pid); err == nil && s.start == p.start && s.dead() && s.exit != 0 {
		return syscall.WaitStatus(s.exit), false
	}
	if status, told := p.pidfdStatus(); told {
		return status, false
	}
	if p.hint >= 0 {
		return syscall.WaitStatus(p.hint << 8), false
	}
	return p.zombieStatus(), false
}

func (p *process) pidfdStatus() (syscall.WaitStatus, bool) {
	if p.pidfd < 0 {
		return unknownStatus, false
	}
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	err := unix.IoctlPidfdInfo(p.pidfd, &info)
	return syscall.WaitStatus(info.Exit_code), err == nil && info.Mask&unix.PIDFD_INFO_EXIT != 0
}

// zombieStatus believes an exit code of 0 in a zombie's stat only if its other
// guarded field shows that we may read them; here all that is left is to say
// unknown, or 0 for a process of our own user.
func (p *process) zombieStatus() syscall.WaitStatus {
	s, err := readStat(p.pid)
	if err == nil && s.start == p.start && s.dead() && p.image != 0 {
		return syscall.WaitStatus(s.exit)
	}
	return unknownStatus
}

// kill sends a signal to this very process.
func (p *process) kill(sig syscall.Signal) error {
	if p.exited {
		return ErrNotOurs
	}
	err := p.send(sig)
	if errors.Is(err, unix.ESRCH) {
		return ErrNotOurs
	}
	return err
}

func (p *process) send(sig syscall.Signal) error {
	if p.pidfd >= 0 {
		return unix.PidfdSendSignal(p.pidfd, sig, nil, 0)
	}
	if p.gone() {
		return ErrNotOurs
	}
	return syscall.Kill(p.pid, sig)
}

// killGroup ends a whole process group; that it is empty already is as good.
func (p *process) killGroup() { _ = p.signalGroup(syscall.SIGKILL) }

// signalGroup signals a whole process group. The pidfd names the group safely from
// Linux 6.9; before that its number is only safe while the leader is not reaped.
func (p *process) signalGroup(sig syscall.Signal) error {
	if p.pidfd >= 0 && unix.PidfdSendSignal(p.pidfd, sig, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP) == nil {
		return nil
	}
	if p.exited {
		return ErrNotOurs
	}
	return syscall.Kill(-p.pid, sig)
}

// adoptOrphans makes deadwire the reaper of all that it starts, once and for all.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become child subreaper: %w", err)
	}
	return nil
}

// processAttributes: a group of its own, and death with deadwire. The launcher
// sets the latter again, since it executes the program on another thread.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// pollEvery is how often the tree is looked at. After a look that took long it
// is less often, so that looking takes at most a share of the time: a small one
// where notifications tell most things at once, a larger one where looking is
// all there is.
const (
	pollEvery    = 5 * time.Millisecond
	pollSoon     = time.Millisecond
	adoptEvery   = 100 * time.Millisecond
	shareTold    = 50
	shareLooking = 10
)
