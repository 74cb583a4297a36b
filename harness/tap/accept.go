package tap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"deadwire/harness/event"
)

// accept takes connections in until the tap is closed.
func (t *Tap) accept() {
	full := false
	for {
		conn, err := t.listener.AcceptTCP()
		resumed, closed := t.waiting()
		switch {
		case closed:
			if err == nil {
				_ = closeRST(conn)
			}
			return
		case resumed != nil:
			if err == nil {
				_ = closeRST(conn) // it slipped in while refusing began
				continue
			}
			<-resumed
		case crowded(err):
			t.pause(&full, err)
		case err != nil:
			if !passes(err) {
				t.cfg.Recorder.Record(event.Event{Kind: event.WitnessFailed, Step: &event.Step{Name: "tap.accept", Note: err.Error()}})
				return
			}
		default:
			full = false
			t.admit(t.adoptFront(conn))
		}
	}
}

// crowdedPause is how long accepting rests when this process has no descriptor, or
// the kernel no memory, for one more connection. Those that wait stay in the queue.
const crowdedPause = 10 * time.Millisecond

// crowded reports whether accepting failed for want of what other sessions use, and
// will give back when they end.
func crowded(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}

// pause rests until a session may have ended, and records the first time of a row.
func (t *Tap) pause(full *bool, err error) {
	if !*full {
		*full = true
		t.cfg.Recorder.Record(event.Event{Kind: event.WitnessFailed, Step: &event.Step{Name: "tap.accept", Note: err.Error() + ": connections wait until sessions end"}})
	}
	select {
	case <-time.After(crowdedPause):
	case <-t.dialing.Done(): // the tap closes
	}
}

// passes reports whether accepting can go on: the error was one connection's, or of
// a moment before Refuse took effect.
func passes(err error) bool {
	return errors.Is(err, syscall.ECONNABORTED) || errors.Is(err, syscall.EINVAL)
}

func (t *Tap) waiting() (resumed chan struct{}, closed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refusing, t.closed
}

// admit gives a connection its number and lets it live in a goroutine of its own.
func (t *Tap) admit(conn leg) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = closeRST(conn)
		return
	}
	t.count++
	s := newSession(t, t.count, conn)
	t.sessions = append(t.sessions, s)
	t.running.Go(s.live)
}

func newSession(t *Tap, n int, conn leg) *Session {
	s := &Session{
		tap: t, id: event.SessionID{Place: t.cfg.Place, N: n}, front: conn,
		ended: make(chan struct{}), gone: make(chan struct{}), release: make(chan struct{}),
		reset: make(map[event.Side]bool), ring: newRing(t.cfg.RingMessages),
	}
	if from, isTCP := conn.RemoteAddr().(*net.TCPAddr); isTCP {
		s.client = from.AddrPort()
	}
	s.up.s, s.up.side = s, event.Frontend
	s.up.dec = decoder{side: event.Frontend, framing: packets, tls: t.cfg.TLS == TLSPassthrough}
	s.down.s, s.down.side = s, event.Backend
	s.down.dec = decoder{side: event.Backend, framing: messages}
	return s
}

// live is the whole life of a session.
func (s *Session) live() {
	defer s.finish()
	defer s.leaveTap()
	s.open()
	if s.tap.authority != nil && !s.greet() {
		return
	}
	back, err := s.dial()
	if err != nil {
		s.refused(err)
		return
	}
	if !s.attach(back) {
		return
	}
	s.relay()
}

func (s *Session) open() {
	opened := s.introduce()
	s.lastAt.Store(int64(s.tap.cfg.Recorder.Now()))
	s.record(event.Event{Kind: event.SessionOpened, Opened: &opened})
}

// introduce asks who opened the session.
func (s *Session) introduce() event.Opened {
	var opened event.Opened
	local, isTCP := s.front.LocalAddr().(*net.TCPAddr)
	switch {
	case !isTCP && s.tap.cfg.OnUnix != nil:
		opened = s.tap.cfg.OnUnix(s.id, inodeOf(s.front))
	case isTCP && s.tap.cfg.OnAccept != nil:
		opened = s.tap.cfg.OnAccept(s.id, s.client, local.AddrPort())
	}
	if opened.Client == "" {
		opened.Client = s.from()
	}
	return opened
}

// from is the client's address for the record.
func (s *Session) from() string {
	if !s.client.IsValid() {
		return "unix:" + s.tap.SocketPath()
	}
	return s.client.String()
}

func (s *Session) dial() (leg, error) {
	ctx, cancel := context.WithTimeout(s.tap.dialing, s.tap.cfg.DialTimeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, s.tap.cfg.Network, s.tap.cfg.Upstream)
	if err != nil {
		return nil, err
	}
	l, ok := conn.(leg)
	if !ok {
		return nil, errors.Join(fmt.Errorf("dial %s: network %q has no half-close", s.tap.cfg.Upstream, s.tap.cfg.Network), conn.Close())
	}
	if s.tap.cfg.ServerTLS == nil {
		return s.adoptBack(l)
	}
	encrypted, err := request(ctx, l, s.tap.cfg.ServerTLS)
	if err != nil {
		return nil, errors.Join(err, closeFIN(l))
	}
	return encrypted, nil
}

// attach makes back the session's second leg, unless the session was cut meanwhile.
func (s *Session) attach(back leg) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.severed {
		_ = closeFIN(back) // the server only ever saw a connection that said nothing
		return false
	}
	s.back = back
	return true
}

// refused shows the client that there is no server behind the tap.
func (s *Session) refused(err error) {
	s.mu.Lock()
	if !s.severed {
		s.closing(event.Closing{From: event.Backend, Manner: event.Refused, Text: err.Error()})
	}
	s.mu.Unlock()
	_ = closeRST(s.front) // the client may be gone as well
}

// leaveTap forgets the session.
func (s *Session) leaveTap() {
	s.tap.mu.Lock()
	defer s.tap.mu.Unlock()
	s.tap.sessions = slices.DeleteFunc(s.tap.sessions, func(one *Session) bool { return one == s })
}
