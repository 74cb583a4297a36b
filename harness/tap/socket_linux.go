package tap

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket is a leg that a loop watches, and Go's own network poller does not: that
// one wakes a thread at each arrival, whether or not anybody waits for it. Its
// methods are safe for concurrent use.
type socket struct {
	leg // what it was made of: closed, but it still knows its addresses

	mu   sync.Mutex    // keeps fd from being closed, and used anew, during a system call
	fd   int           // -1 once closed
	room chan struct{} // closed when there may be room to write; nil when nobody waits

	// From when it is watched on:
	loop  *loop
	id    int32      // among the loop's sockets
	reads *direction // what its bytes belong to
}

// adopt takes a connection out of Go's network poller.
func adopt(l leg) (leg, error) {
	conn, err := l.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var failed error
	err = conn.Control(func(old uintptr) { fd, failed = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, os.NewSyscallError("fcntl", failed)); err != nil {
		return nil, err
	}
	_ = l.Close() // of its descriptor: the connection lives on in ours
	return &socket{leg: l, fd: fd}, nil
}

// adoptFront is adopt, where the tap need not speak TLS on either side.
func (t *Tap) adoptFront(l leg) leg {
	if t.authority != nil || t.cfg.ServerTLS != nil {
		return l
	}
	if k, err := adopt(l); err == nil {
		return k
	}
	return l // goroutines move it just as well
}

// adoptBack is adopt, where a loop can move both legs.
func (s *Session) adoptBack(l leg) (leg, error) {
	if _, adopted := s.front.(*socket); !adopted {
		return l, nil
	}
	return adopt(l)
}

// take reads what is there into b: 0 and io.EOF after FIN, EAGAIN when there is nothing.
func (k *socket) take(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fd < 0 {
		return 0, net.ErrClosed
	}
	n, err := call(unix.SYS_READ, k.fd, b)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// give writes as much of b as there is room for, with EAGAIN when that is not all.
func (k *socket) give(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for given := 0; ; {
		if k.fd < 0 {
			return given, net.ErrClosed
		}
		n, err := call(unix.SYS_WRITE, k.fd, b[given:])
		given += n
		if err != nil || given == len(b) {
			return given, err
		}
	}
}

// call makes a system call that never blocks, without telling Go's scheduler.
func call(number uintptr, fd int, b []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall(number, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, unix.EAGAIN
		default:
			return 0, os.NewSyscallError(callNames[number], errno)
		}
	}
}

var callNames = map[uintptr]string{unix.SYS_READ: "read", unix.SYS_WRITE: "write"}

// Write implements net.Conn: it waits for room.
func (k *socket) Write(b []byte) (int, error) {
	written := 0
	for {
		n, err := k.give(b[written:])
		written += n
		if !errors.Is(err, unix.EAGAIN) {
			return written, err
		}
		if err := k.awaitRoom(); err != nil {
			return written, err
		}
	}
}

func (k *socket) awaitRoom() error {
	k.mu.Lock()
	if k.fd < 0 {
		k.mu.Unlock()
		return net.ErrClosed
	}
	if k.room == nil {
		k.room = make(chan struct{})
	}
	room := k.room
	err := k.loop.change(k, unix.EPOLLOUT) // tells at once when there is room already
	k.mu.Unlock()
	if err != nil {
		return err
	}
	<-room
	return nil
}

// madeRoom wakes who waits to write.
func (k *socket) madeRoom() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.wake() && k.fd >= 0 {
		_ = k.loop.change(k, 0) // else it tells of room once too often
	}
}

// wake wakes who waits to write, if anybody does. mu is held.
func (k *socket) wake() bool {
	if k.room == nil {
		return false
	}
	close(k.room)
	k.room = nil
	return true
}

// Close implements net.Conn. Who reads or waits to write finds it closed.
func (k *socket) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fd < 0 {
		return net.ErrClosed
	}
	if k.loop != nil {
		k.loop.forget(k)
	}
	err := os.NewSyscallError("close", unix.Close(k.fd))
	k.fd = -1
	k.wake()
	if k.reads != nil && !k.reads.over.Load() {
		k.loop.post(task{flow: k.reads})
	}
	return err
}

// CloseWrite implements leg.
func (k *socket) CloseWrite() error {
	return k.control(func(fd int) error { return os.NewSyscallError("shutdown", unix.Shutdown(fd, unix.SHUT_WR)) })
}

// SetLinger implements lingerer.
func (k *socket) SetLinger(seconds int) error {
	return k.control(func(fd int) error {
		return os.NewSyscallError("setsockopt", unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: int32(seconds)}))
	})
}

// SetReadDeadline implements net.Conn as far as the relay needs it: any deadline
// makes the reader look at once whether it has something else to do.
func (k *socket) SetReadDeadline(time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.reads != nil {
		k.loop.post(task{flow: k.reads})
	}
	return nil
}

func (k *socket) control(do func(fd int) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fd < 0 {
		return net.ErrClosed
	}
	return do(k.fd)
}

// SyscallConn implements leg.
func (k *socket) SyscallConn() (syscall.RawConn, error) { return rawSocket{k}, nil }

// rawSocket lends the descriptor; reading and writing are the loop's.
type rawSocket struct{ k *socket }

// Control implements syscall.RawConn.
func (r rawSocket) Control(do func(fd uintptr)) error {
	return r.k.control(func(fd int) error {
		do(uintptr(fd))
		return nil
	})
}

// Read implements syscall.RawConn.
func (r rawSocket) Read(func(fd uintptr) bool) error { return errors.ErrUnsupported }

// Write implements syscall.RawConn.
func (r rawSocket) Write(func(fd uintptr) bool) error { return errors.ErrUnsupported }
