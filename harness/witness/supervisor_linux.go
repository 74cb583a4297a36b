package witness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification is struct seccomp_notif, linux/seccomp.h; x/sys has the ioctl
// numbers but not the structs.
type notification struct {
	ID          uint64
	TID         uint32
	Flags       uint32
	Number      int32
	Arch        uint32
	Instruction uint64
	Args        [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	ID    uint64
	Value int64
	Error int32
	Flags uint32
}

// supervisor serves the notifications of one subject's tree. Whatever goes
// wrong, each caller is let go on.
type supervisor struct {
	witness  *Witness
	tree     Tracker
	table    callTable
	listener int
	stopping int // an eventfd
	once     sync.Once
	done     chan struct{}
	handlers sync.WaitGroup
}

func serve(w *Witness, tree Tracker, listener int) (*supervisor, error) {
	stopping, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("serve notifications: %w", err)
	}
	s := &supervisor{
		witness: w, tree: tree, table: newCallTable(),
		listener: listener, stopping: stopping, done: make(chan struct{}),
	}
	// A caller and its supervisor take turns, so the kernel may wake one where the
	// other runs (Linux 6.6 and later; older ones refuse and go on as before).
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	go s.run()
	return s, nil
}

func (s *supervisor) run() {
	defer close(s.done)
	defer s.handlers.Wait()
	for {
		ready, err := s.await()
		if err != nil {
			s.witness.fail("notifications", err)
		}
		if !ready {
			return
		}
		n, err := s.receive()
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT):
			continue // ENOENT: the caller was killed in the meantime
		case err != nil:
			s.witness.fail("notifications", fmt.Errorf("receive: %w", err))
			return
		}
		at := s.witness.options.Recorder.Now()
		s.handlers.Go(func() { s.handle(n, at) })
	}
}

// await returns true when a notification is there, false when there will be none.
func (s *supervisor) await() (bool, error) {
	fds := []unix.PollFd{
		{Fd: int32(s.listener), Events: unix.POLLIN},
		{Fd: int32(s.stopping), Events: unix.POLLIN},
	}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return false, fmt.Errorf("poll: %w", err)
		case fds[1].Revents != 0:
			return false, nil
		case fds[0].Revents&unix.POLLIN != 0:
			return true, nil
		default:
			return false, nil // POLLHUP: the last process under the filter is gone
		}
	}
}

func (s *supervisor) receive() (notification, error) {
	var n notification
	err := control(s.listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
	return n, err
}

// handle looks at one call while its caller stands still, then answers it.
func (s *supervisor) handle(n notification, at time.Duration) {
	reply := answer{ID: n.ID, Flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	defer func() {
		err := control(s.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&reply))
		if err != nil && !errors.Is(err, unix.ENOENT) {
			s.witness.fail("notifications", fmt.Errorf("answer: %w", err))
		}
	}()
	c := s.newCaller(n, at)
	if value, suppressed := c.look(); suppressed {
		reply.Flags, reply.Value, reply.Error = 0, max(value, 0), int32(min(value, 0))
	}
}

// valid reports whether the caller still stands in the call, so that what was
// read of it was its own and not a later process's.
func (s *supervisor) valid(id uint64) bool {
	return control(s.listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id)) == nil
}

func (s *supervisor) stop(ctx context.Context) error {
	var err error
	s.once.Do(func() {
		_, err = unix.Write(s.stopping, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		select {
		case <-s.done:
			err = errors.Join(err, unix.Close(s.stopping), unix.Close(s.listener))
		case <-ctx.Done():
			err = errors.Join(err, fmt.Errorf("stop serving notifications: %w", context.Cause(ctx)))
		}
	})
	return err
}

func control(fd int, request uint, argument unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(argument))
	if errno != 0 {
		return os.NewSyscallError("ioctl", errno)
	}
	return nil
}
