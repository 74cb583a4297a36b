package tap

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"deadwire/harness/event"
)

// Session is one accepted connection, with the one that the tap opened for it.
// Its methods are safe for concurrent use.
type Session struct {
	tap    *Tap
	id     event.SessionID
	client netip.AddrPort
	front  leg
	back   leg // nil until the next hop is reached

	swallow atomic.Bool   // blackholed: nothing is passed on any more
	lastAt  atomic.Int64  // recorder's clock at the newest bytes
	ended   chan struct{} // closed after SessionEnded was recorded
	gone    chan struct{} // closed when both legs were cut: wakes what is stalled

	mu       sync.Mutex
	progress progress
	sasl     sasl
	named    event.Named
	key      string // cancel key, in memory only
	stmts    names
	portals  names
	labels   labels
	ring     ring
	direct   int  // messages still to be recorded one by one, after the first closing
	severed  bool // by us: what the legs do from now on is our own doing
	closings []event.Closing
	reset    map[event.Side]bool // a write met the RST that the reader has not seen yet
	injected *lastWords
	errors   []owedError
	release  chan struct{} // closed by Release, then replaced
	totals   event.Ended
	up, down flow
}

// ID returns the session's name in the journal.
func (s *Session) ID() event.SessionID { return s.id }

// Client returns the address of the peer towards the subject; none (IsValid is
// false) when it came by the Unix socket.
func (s *Session) Client() netip.AddrPort { return s.client }

// Done is closed when both legs are gone and the end is recorded.
func (s *Session) Done() <-chan struct{} { return s.ended }

// BackendPID returns the server process's id, 0 before it is known.
func (s *Session) BackendPID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.named.BackendPID
}

// ApplicationName returns the newest application_name that the server reported, or
// the one that the client asked for.
func (s *Session) ApplicationName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.named.ApplicationName
}

// Database returns the database that the client asked for.
func (s *Session) Database() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.named.Database
}

// State returns where the session is, as far as the subject can know.
func (s *Session) State() event.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress.state()
}

// Idle returns the time since bytes last came from either side.
func (s *Session) Idle() time.Duration {
	return s.tap.cfg.Recorder.Now() - time.Duration(s.lastAt.Load())
}

// note keeps a message: in the ring, or in the journal when the session is about to
// end or every message is wanted. mu is held.
func (s *Session) note(at time.Duration, m event.Message) {
	s.totals.Messages++
	switch {
	case s.tap.cfg.Full:
		s.write(at, m)
	case s.direct > 0:
		s.direct--
		s.write(at, m)
	default:
		s.ring.add(at, m)
	}
}

func (s *Session) write(at time.Duration, m event.Message) {
	s.record(event.Event{At: at, Kind: event.SessionMessage, Message: &m})
}

func (s *Session) record(e event.Event) {
	e.Session = s.id
	s.tap.cfg.Recorder.Record(e)
}

// closing records the first sign of a manner of ending on a leg, after the messages
// that led to it. mu is held.
func (s *Session) closing(c event.Closing) {
	for _, seen := range s.closings {
		if seen.From == c.From && seen.Manner == c.Manner {
			return
		}
	}
	if c.State == "" {
		c.State = s.progress.state()
	}
	if len(s.closings) == 0 {
		s.direct = s.tap.cfg.RingMessages
	}
	s.closings = append(s.closings, c)
	s.ring.take(s.write)
	s.record(event.Event{Kind: event.SessionClosing, Closing: &c})
}

// finish records the end.
func (s *Session) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring.take(s.write)
	s.totals.State = s.progress.state()
	s.totals.Lost = s.ring.lost
	sum := s.totals
	s.record(event.Event{Kind: event.SessionEnded, Ended: &sum})
	s.tap.keys.forget(s.key, s.id)
	close(s.ended)
}
