package tap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"deadwire/harness/event"
)

// listenElsewhere opens the doors beside the tap's own address: the same port on
// the loopback of the other family, where the system has it and it is free, for
// programs that say localhost; and the Unix socket, if one is wanted.
func (t *Tap) listenElsewhere(ctx context.Context) error {
	if twin := otherLoopback(t.addr); twin.IsValid() {
		if l, err := listenTCP(ctx, twin); err == nil { // an extra: without it a client tries the first
			t.others = append(t.others, l)
		}
	}
	if t.cfg.SocketDir == "" {
		return nil
	}
	var cfg net.ListenConfig
	l, err := cfg.Listen(ctx, "unix", t.SocketPath())
	if err != nil {
		return errors.Join(fmt.Errorf("listen on %s: %w", t.SocketPath(), err), t.closeOthers())
	}
	t.others = append(t.others, l)
	// As the server's own: who may enter the folder may connect.
	if err := os.Chmod(t.SocketPath(), 0o777); err != nil {
		return errors.Join(fmt.Errorf("listen on %s: %w", t.SocketPath(), err), t.closeOthers())
	}
	return nil
}

func (t *Tap) closeOthers() error {
	var errs []error
	for _, l := range t.others {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// otherLoopback returns ::1 for 127.0.0.1 and the other way round, with the port;
// the zero value for every other address.
func otherLoopback(at netip.AddrPort) netip.AddrPort {
	four, six := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	switch at.Addr() {
	case four:
		return netip.AddrPortFrom(six, at.Port())
	case six:
		return netip.AddrPortFrom(four, at.Port())
	default:
		return netip.AddrPort{}
	}
}

// acceptElsewhere takes connections in from another door. While the tap refuses,
// they are closed at once: only the main listener can have the kernel refuse them.
func (t *Tap) acceptElsewhere(l net.Listener) {
	full := false
	for {
		conn, err := l.Accept()
		resumed, closed := t.waiting()
		switch {
		case !closed && crowded(err):
			t.pause(&full, err)
		case err != nil && (closed || !passes(err)):
			if !closed {
				t.cfg.Recorder.Record(event.Event{Kind: event.WitnessFailed, Step: &event.Step{Name: "tap.accept", Note: err.Error()}})
			}
			return
		case err != nil:
		case closed || resumed != nil:
			_ = closeRST(conn.(leg))
		default:
			full = false
			t.admit(t.adoptFront(conn.(leg)))
		}
	}
}

// inodeOf returns the inode of a socket, 0 when it cannot be told.
func inodeOf(conn leg) uint64 {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	var stat syscall.Stat_t
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = syscall.Fstat(int(fd), &stat) }); err != nil || failed != nil {
		return 0
	}
	return stat.Ino
}
