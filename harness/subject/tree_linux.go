package subject

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"deadwire/harness/event"

	"golang.org/x/sys/unix"
)

// markVariable is inherited by every process of a subject, so that a daemon
// whose ancestors all died unseen is still known for ours.
const markVariable = "DEADWIRE_SUBJECT"

// tree is the set of processes that came of one root. It implements
// witness.Tracker: what the witness sees stops at the caller, and so arrives
// before anything can change; what it does not see is found by polling.
type tree struct {
	recorder event.Recorder
	owner    Owner
	token    string
	hide     secrets
	self     int

	epoll    int // watches the pidfds
	stopping int // an eventfd, ends the watch
	woken    chan struct{}
	quit     chan struct{}
	workers  sync.WaitGroup
	told     atomic.Bool // notifications come
	killed   func()      // called when a signal ended a process; nil when nobody asks

	mu        sync.Mutex
	processes map[int]*process
	root      *process // also after its end, for its group
}

func newTree(recorder event.Recorder, owner Owner) (*tree, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch processes: %w", err)
	}
	stopping, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch processes: %w", errors.Join(err, unix.Close(epoll)))
	}
	t := &tree{
		recorder: recorder, owner: owner, token: rand.Text(), hide: newSecrets(), self: os.Getpid(),
		epoll: epoll, stopping: stopping,
		woken: make(chan struct{}, 1), quit: make(chan struct{}),
		processes: map[int]*process{},
	}
	return t, t.watch(stopping)
}

// onKilled has f called whenever a signal ended a process. f must not call back.
func (t *tree) onKilled(f func()) { t.killed = f }

func (t *tree) mark() string { return markVariable + "=" + t.token }

func (t *tree) watch(fd int) error {
	watched := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if err := unix.EpollCtl(t.epoll, unix.EPOLL_CTL_ADD, fd, &watched); err != nil {
		return fmt.Errorf("watch process: %w", err)
	}
	return nil
}

// plant makes pid the root. It cannot have been reaped: we are its parent.
func (t *tree) plant(pid int, argv []string, launcher bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, _ := readStat(pid)
	t.root = &process{
		pid: pid, ppid: t.self, start: s.start, pidfd: openPidfd(pid, s.start),
		root: true, launcher: launcher, announced: argv, hint: -1,
	}
	t.processes[pid] = t.root
	t.announce(t.root, argv)
	t.checkExec(t.root)
}

func (t *tree) announce(p *process, argv []string) {
	if t.owner != nil {
		if err := t.owner.OwnProcess(p.pid); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.recorder.Record(event.Event{
				Kind: event.WitnessFailed, PID: p.pid,
				Step: &event.Step{Name: "own process", Note: err.Error()},
			})
		}
	}
	t.recorder.Record(event.Event{
		Kind: event.ProcessStarted, PID: p.pid,
		Process: &event.Process{PPID: p.ppid, Argv: t.hide.argv(argv), StartTicks: p.start},
	})
}

// Observe implements witness.Tracker.
func (t *tree) Observe(pid int) {
	t.told.Store(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.processes[pid]
	if p == nil || p.exited {
		t.discover(pid, parentsMax)
	} else if p.execing {
		t.checkExec(p)
	}
}

// Execing implements witness.Tracker.
func (t *tree) Execing(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.processes[pid]
	if p == nil {
		return
	}
	if p.launcher { // its one exec, to the program that was announced
		p.launcher = false
	}
	t.settle(p)
	p.execing = true
	t.wake()
}

// launched says that the root has become its program. Without notifications
// nobody has seen that exec.
func (t *tree) launched() {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.root
	if !p.launcher {
		return
	}
	p.launcher = false
	t.checkExec(p)
}

// settle takes down a process's image, if that is not known yet: for a moment
// within exec it is not.
func (t *tree) settle(p *process) {
	if s, err := readStat(p.pid); err == nil && s.start == p.start && p.image == 0 {
		p.image = s.image
	}
}

// Exiting implements witness.Tracker. Its children are looked for while they
// still are its children.
func (t *tree) Exiting(pid, code int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.processes[pid]
	if p == nil {
		return
	}
	p.hint = code
	t.checkExec(p)
	for _, child := range look().children(pid) {
		t.discover(child, parentsMax)
	}
}

// PIDs implements witness.Tracker.
func (t *tree) PIDs() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.living()
}

// Refresh implements witness.Tracker.
func (t *tree) Refresh() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.explore()
	return t.living()
}

func (t *tree) living() []int {
	var pids []int
	for pid, p := range t.processes {
		if !p.exited {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// explore walks down from every known process.
func (t *tree) explore() {
	system := look()
	queue := t.living()
	for len(queue) > 0 {
		p := t.processes[queue[0]]
		queue = queue[1:]
		t.checkExec(p)
		for _, child := range system.children(p.pid) {
			if t.discover(child, 0) {
				queue = append(queue, child)
			}
		}
	}
}

// adopt looks at our own children for orphans of this subject: of processes
// that were never seen.
func (t *tree) adopt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, pid := range look().children(t.self) {
		if t.processes[pid] == nil && hasVariable(pid, t.mark()) {
			t.discover(pid, 0)
		}
	}
}

// parentsMax bounds the climb from an unknown process to a known one.
const parentsMax = 64

// discover takes a process in, its unknown ancestors first, and returns true if
// it was unknown.
func (t *tree) discover(pid, climb int) bool {
	s, err := readStat(pid)
	if err != nil {
		return false
	}
	if known := t.processes[pid]; known != nil {
		if known.start == s.start {
			return false
		}
		t.forget(known)
	}
	if t.processes[s.ppid] == nil && climb > 0 && s.ppid > 1 && s.ppid != t.self {
		t.discover(s.ppid, climb-1)
	}
	argv := readArgv(pid)
	p := &process{pid: pid, ppid: s.ppid, start: s.start, image: s.image, pidfd: openPidfd(pid, s.start), hint: -1}
	p.blank = len(argv) == 0
	t.processes[pid] = p
	t.announce(p, argv)
	if p.pidfd >= 0 && t.watch(p.pidfd) != nil {
		p.closePidfd()
	}
	return true
}

// forget drops a process of which nothing is left.
func (t *tree) forget(p *process) {
	if !p.exited {
		t.recordExit(p, 0, unknownStatus)
	}
	p.closePidfd()
	delete(t.processes, p.pid)
}

// ended takes the root's exit from the instance, which waited for it.
func (t *tree) ended(pid int, at time.Duration, exit *Exit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.processes[pid]
	status := syscall.WaitStatus(exit.Signal)
	if exit.Signal == 0 {
		status = syscall.WaitStatus(exit.Code << 8)
	}
	t.recordExit(p, at, status)
	delete(t.processes, pid) // its pidfd stays open for the group, until stop
	t.wake()
}

func (t *tree) recordExit(p *process, at time.Duration, status syscall.WaitStatus) {
	p.exited = true
	ended := &event.Process{}
	switch {
	case status == unknownStatus:
	case status.Signaled():
		ended.Signal = signalName(status.Signal())
		if t.killed != nil {
			t.killed()
		}
	default:
		code := status.ExitStatus()
		ended.Code = &code
	}
	t.recorder.Record(event.Event{At: at, Kind: event.ProcessExited, PID: p.pid, Process: ended})
}

func (t *tree) alive(pid int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.processes[pid]
	return p != nil && !p.exited && (p.pidfd < 0 || !p.ready())
}

func (t *tree) signal(pid int, sig syscall.Signal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.processes[pid]
	if p == nil {
		return ErrNotOurs
	}
	return p.kill(sig)
}

// signalGroup signals the group that the root leads, or led.
func (t *tree) signalGroup(sig syscall.Signal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.root == nil {
		return ErrNotOurs
	}
	return t.root.signalGroup(sig)
}

// killAll signals every process that it can find, reaps what it may, and
// returns the pids of which something is left.
func (t *tree) killAll() []int {
	t.adopt()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.explore()
	t.root.killGroup()
	for _, p := range t.processes {
		_ = p.kill(syscall.SIGKILL) // already gone is as good
	}
	t.reap()
	return slices.Sorted(maps.Keys(t.processes))
}

// reap buries exited processes: those that became our children by waiting for
// them, others when their parent has done so.
func (t *tree) reap() {
	for _, p := range t.processes {
		if p.root {
			continue
		}
		if p.pidfd < 0 && !p.exited {
			t.pollExit(p)
		}
		if !p.exited {
			continue
		}
		if _, reaped := p.reap(); reaped || p.gone() {
			t.forget(p)
		}
	}
}

// pollExit stands in for the pidfd where there is none.
func (t *tree) pollExit(p *process) {
	s, err := readStat(p.pid)
	if err == nil && s.start == p.start && !s.dead() {
		return
	}
	status, _ := p.status()
	t.recordExit(p, 0, status)
}
