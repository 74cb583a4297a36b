package tap

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"deadwire/harness/event"
)

// ErrEnded is returned by Session.Cut when both legs are gone already.
var ErrEnded = errors.New("session has ended")

// leg is one of the two connections of a session: TCP, or a unix socket.
type leg interface {
	net.Conn
	CloseWrite() error
	SyscallConn() (syscall.RawConn, error)
}

// lingerer is a leg that can be reset.
type lingerer interface{ SetLinger(seconds int) error }

// Cut ends or silences the session from the middle. Cause is the id of the fault on
// whose behalf it happens; it stands in the closings, which are recorded before the
// sockets are touched. The error is ErrEnded, or a system error of a socket.
func (s *Session) Cut(c Cut, cause string) error { return s.cut(c, event.Closing{Cause: cause}) }

func (s *Session) cut(c Cut, why event.Closing) error {
	select {
	case <-s.ended:
		return ErrEnded
	default:
	}
	switch c {
	case CutFIN:
		return s.sever(event.FIN, why)
	case CutRST:
		return s.sever(event.RST, why)
	case CutBlackhole:
		s.announce(event.Silence, why, event.Frontend, event.Backend)
		s.swallow.Store(true)
		return nil
	case CutFrontendFIN:
		return s.halfClose(event.Frontend, why)
	case CutBackendFIN:
		return s.halfClose(event.Backend, why)
	}
	return fmt.Errorf("cut session %s: no cut is named %q", s.id, c)
}

// announce records closings of our own doing.
func (s *Session) announce(manner event.Manner, why event.Closing, sides ...event.Side) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, side := range sides {
		why.From, why.Manner = side, manner
		s.closing(why)
	}
}

// sever ends both legs in the same manner. What the peers do afterwards is a
// consequence, so it is not recorded.
func (s *Session) sever(manner event.Manner, why event.Closing) error {
	if !s.claim(manner, why) {
		return nil
	}
	return s.endLegs(manner)
}

// endLegs closes both legs in that manner. It is for whoever made the claim.
func (s *Session) endLegs(manner event.Manner) error {
	end := closeFIN
	if manner == event.RST {
		end = closeRST
	}
	var err error
	for _, l := range s.legs() {
		err = errors.Join(err, end(l))
	}
	return err
}

// halfClose sends FIN on one leg. The other direction goes on.
func (s *Session) halfClose(side event.Side, why event.Closing) error {
	legs := s.legs()
	if side == event.Backend {
		legs = legs[1:]
	}
	if len(legs) == 0 {
		return fmt.Errorf("cut session %s: not connected to the server yet", s.id)
	}
	s.announce(event.FIN, why, side)
	return unlessGone(legs[0].CloseWrite())
}

// legs returns the subject's leg, and the server's once it exists.
func (s *Session) legs() []leg {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.back == nil {
		return []leg{s.front}
	}
	return []leg{s.front, s.back}
}

// claim marks the session as ended by us; only the first caller gets true.
func (s *Session) claim(manner event.Manner, why event.Closing) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.severed {
		return false
	}
	for _, side := range []event.Side{event.Frontend, event.Backend} {
		why.From, why.Manner = side, manner
		s.closing(why)
	}
	s.severed = true
	close(s.gone)
	return true
}

// closeRST ends a connection with RST, whatever is still in its buffers.
func closeRST(l leg) error {
	var err error
	if tcp, ok := l.(lingerer); ok {
		err = tcp.SetLinger(0)
	}
	return errors.Join(unlessGone(err), unlessGone(l.Close()))
}

// closeFIN ends a connection with FIN. Linux answers a close that leaves received
// bytes unread with RST (RFC 1122, 4.2.2.13), so those are taken out first.
func closeFIN(l leg) error {
	return errors.Join(unlessGone(l.CloseWrite()), unlessGone(discard(l)), unlessGone(l.Close()))
}

// unlessGone is err, unless it only says that the connection has ended: a peer may
// answer the first step of a close so fast that the relay finishes it before us.
func unlessGone(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ENOTCONN) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}

// discard takes out what has been received, without waiting for more.
func discard(l leg) error {
	conn, err := l.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Control(func(fd uintptr) {
		var buf [16 << 10]byte
		for range 1024 { // bounded: a peer that keeps sending must not keep us here
			if n, err := syscall.Read(int(fd), buf[:]); n <= 0 || err != nil {
				return
			}
		}
	})
}

// Release lets go of what a Stall holds, in both directions. A blackholed session
// has lost bytes and cannot go on: it is reset, as by a box that forgot the flow.
func (s *Session) Release() error {
	s.mu.Lock()
	close(s.release)
	s.release = make(chan struct{})
	s.mu.Unlock()
	if s.swallow.Load() {
		return s.sever(event.RST, event.Closing{Text: "blackhole released"})
	}
	return nil
}

// takeNotify keeps a close_notify among the messages.
func (s *Session) takeNotify(side event.Side) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(s.tap.cfg.Recorder.Now(), event.Message{From: side, Type: records[recordAlert]})
}

// legEnded takes in the error that ended reading from a leg, nil for FIN, and shows
// the other peer the same manner of ending.
func (s *Session) legEnded(side event.Side, other leg, err error) {
	manner, text := s.mannerOf(side, err)
	s.mu.Lock()
	severed := s.severed
	if !severed {
		text += s.bindingMissed(side, manner)
		s.closing(event.Closing{From: side, Manner: manner, Text: text})
	}
	through := manner == event.RST && !severed && !s.swallow.Load()
	if through {
		s.severed = true
		close(s.gone)
	}
	s.mu.Unlock()
	switch {
	case through:
		_ = errors.Join(closeRST(s.front), closeRST(s.back)) // gone either way
	case !severed && !s.swallow.Load():
		if s.orderly(side) {
			part(other)
		}
		_ = other.CloseWrite() // fails only if the other peer is gone, which its reader sees
	}
}

func (s *Session) mannerOf(side event.Side, err error) (event.Manner, string) {
	s.mu.Lock()
	met := s.reset[side]
	s.mu.Unlock()
	switch {
	case err == nil && !met:
		return event.FIN, ""
	case err == nil, errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return event.RST, ""
	case outOfTLS(err):
		return event.Desync, err.Error()
	}
	return event.RST, err.Error()
}

// orderly reports whether a leg that has ended said goodbye first, or was told to go.
// PostgreSQL sends close_notify whenever it exits by itself.
func (s *Session) orderly(side event.Side) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.closings {
		if c.Manner == event.Terminate || c.Manner == event.Fatal && c.From == side {
			return true
		}
	}
	return false
}
