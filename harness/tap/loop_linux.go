package tap

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watched is what a loop always hears of. Edges only: a direction reads until there
// is no more, so that a message costs one wait, one read and one write.
const watched = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET

// endings are the events of a socket behind whose bytes there is an ending to read.
const endings = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR

// bellID stands for the bell among the sockets.
const bellID = 0

// loop moves the directions of many sessions in one goroutine, by epoll. It does
// only what never waits; everything else it gives to a goroutine for the time being
// (direction.carry).
type loop struct {
	epoll int
	bell  int // an eventfd that wakes it
	done  chan struct{}

	mu      sync.Mutex
	sockets map[int32]*socket
	last    int32 // id that was given last
	tasks   []task
	closed  bool // the descriptors are gone

	scratch []byte // the buffer of whichever direction has nothing of its own to keep
}

// task is something that a loop is asked to do.
type task struct {
	flow *direction // look at it again
	back bool       // it comes back from its goroutine
	stop bool       // end the loop
}

func newLoop() (*loop, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(epoll) // nothing is in it
		return nil, os.NewSyscallError("eventfd", err)
	}
	l := &loop{epoll: epoll, bell: bell, done: make(chan struct{}), sockets: make(map[int32]*socket)}
	if err := l.control(unix.EPOLL_CTL_ADD, bell, bellID, unix.EPOLLIN); err != nil {
		l.close()
		return nil, err
	}
	go l.run()
	return l, nil
}

func (l *loop) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	_, _ = unix.Close(l.epoll), unix.Close(l.bell) // nothing to lose
}

// end stops the loop and waits for it. Its sessions have ended before.
func (l *loop) end() {
	l.post(task{stop: true})
	<-l.done
}

func (l *loop) control(op, fd int, id int32, events uint32) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(l.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: id}))
}

// watch begins to move a direction as bytes come.
func (l *loop) watch(k *socket, d *direction) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.mu.Lock()
	for l.last++; l.last == bellID || l.sockets[l.last] != nil; l.last++ {
	}
	k.id, k.loop, k.reads = l.last, l, d
	l.sockets[k.id] = k
	l.mu.Unlock()
	if k.fd < 0 {
		l.post(task{flow: d}) // it finds out
		return nil
	}
	return l.control(unix.EPOLL_CTL_ADD, k.fd, k.id, watched)
}

// change adds events to what is watched of a socket. Its mu is held.
func (l *loop) change(k *socket, more uint32) error {
	return l.control(unix.EPOLL_CTL_MOD, k.fd, k.id, watched|more)
}

// forget ends the watch before a descriptor is closed: a child that is being
// started may hold the connection, and with it the watch, for a moment longer.
// k's mu is held.
func (l *loop) forget(k *socket) {
	_ = l.control(unix.EPOLL_CTL_DEL, k.fd, k.id, 0) // what is not watched need not be forgotten
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sockets, k.id)
}

// post asks the loop to do something, from any goroutine.
func (l *loop) post(t task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.tasks = append(l.tasks, t)
	if len(l.tasks) == 1 {
		one := [8]byte{1}
		_, _ = unix.Write(l.bell, one[:]) // full only when it rings already
	}
}

// due takes the tasks.
func (l *loop) due() []task {
	var count [8]byte
	_, _ = unix.Read(l.bell, count[:]) // silences the bell; empty is as good
	l.mu.Lock()
	defer l.mu.Unlock()
	tasks := l.tasks
	l.tasks = nil
	return tasks
}

func (l *loop) run() {
	defer close(l.done)
	defer l.close()
	var events [64]unix.EpollEvent
	var sockets [len(events)]*socket
	busy := false
	for {
		n := l.wait(events[:], busy)
		busy = n > 1
		rings := l.find(events[:n], sockets[:])
		for i, e := range events[:n] {
			if sockets[i] != nil {
				sockets[i].happened(e.Events)
			}
		}
		if rings && l.work() {
			return
		}
	}
}

// find looks up whose the events are. It reports whether the bell rings.
func (l *loop) find(events []unix.EpollEvent, sockets []*socket) (rings bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range events {
		sockets[i] = l.sockets[e.Fd] // nil for the bell, and for one that was just forgotten
		rings = rings || e.Fd == bellID
	}
	return rings
}

// wait returns as soon as there are events. When busy, it expects some, and asks
// first without telling Go's scheduler, which costs as much as asking.
func (l *loop) wait(events []unix.EpollEvent, busy bool) int {
	if busy {
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
		if errno == 0 && n > 0 {
			return int(n)
		}
	}
	for {
		n, err := unix.EpollWait(l.epoll, events, -1)
		switch err {
		case nil:
			return n
		case unix.EINTR:
		default:
			panic(fmt.Sprintf("epoll_wait of our own descriptor: %v", err))
		}
	}
}

// work does what was asked for. It reports whether that was to stop.
func (l *loop) work() (stop bool) {
	for _, t := range l.due() {
		switch {
		case t.stop:
			stop = true
		case t.back:
			t.flow.away = false
			t.flow.look()
		default:
			t.flow.look()
		}
	}
	return stop
}

// happened takes in what epoll tells of a socket.
func (k *socket) happened(events uint32) {
	if events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		k.madeRoom()
	}
	if events&(unix.EPOLLIN|endings) != 0 {
		k.reads.readable(events&endings != 0)
	}
}
