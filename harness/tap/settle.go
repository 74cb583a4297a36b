package tap

import (
	"strings"

	"deadwire/harness/event"
)

// account lets a message count. mu is held.
func (f *flow) account(m event.Message) {
	if f.muted() {
		f.lose(m)
		return
	}
	ending, ends := f.s.settle(&f.dec, &m)
	f.s.note(f.at, m)
	if ends {
		f.s.closing(ending)
	}
}

// lose records a message that does not get to the other side. The subject knows
// what it sent, so that counts; it never hears of what the server said, but when
// those are the server's last words its leg has ended all the same.
func (f *flow) lose(m event.Message) {
	settle := f.s.announces
	if f.side == event.Frontend {
		settle = f.s.settle
	}
	ending, ends := settle(&f.dec, &m)
	f.noteLost(m, ending, ends)
}

func (f *flow) noteLost(m event.Message, ending event.Closing, ends bool) {
	m.Dropped = true
	f.s.note(f.at, m)
	if ends {
		f.s.closing(ending)
	}
}

// swallowed is the step of a message that is left out.
func (f *flow) swallowed(m event.Message) step {
	out := f.handOut(f.msgStart())
	f.start = f.pos
	f.lose(m)
	return step{out: out, more: true}
}

// msgStart is where the message begins in what has not been handed out.
func (f *flow) msgStart() int { return max(f.start, f.msg) }

// pass lets the waiting message through.
func (f *flow) pass() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if f.incomplete {
		f.incomplete = false
		return
	}
	if f.side == event.Backend {
		f.ending, f.ends = f.s.settle(&f.dec, &f.pending)
	}
	f.s.note(f.at, f.pending)
	if f.ends {
		f.s.closing(f.ending)
	}
}

// drop leaves the waiting message out.
func (f *flow) drop() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.start = f.pos
	if f.incomplete {
		f.incomplete, f.dropping = false, true
		return
	}
	if f.side == event.Backend {
		f.ending, f.ends = f.s.announces(&f.dec, &f.pending)
	}
	f.noteLost(f.pending, f.ending, f.ends)
}

// skips reports whether the message belongs to an exchange that an injected error
// has ended: up to Sync from the frontend, up to ReadyForQuery from the backend.
func (f *flow) skips() bool {
	if !f.skipping {
		return false
	}
	last := "SQX" // Sync ends it; a client that goes on without one is let through
	if f.side == event.Backend {
		last = "Z"
	}
	f.skipping = strings.IndexByte(last, f.dec.typ) < 0
	return f.skipping
}

// owesError reports whether an injected error goes out before this message.
func (f *flow) owesError() bool {
	if f.side != event.Backend || f.dec.typ != 'Z' || len(f.s.errors) == 0 {
		return false
	}
	f.s.errors[0].after--
	return f.s.errors[0].after <= 0
}

// preview describes a message of which only the beginning is here.
func (s *Session) preview(d *decoder) event.Message {
	d.body = d.kept
	return s.classify(d)
}

// peerSpeaksTLS puts the server's direction into TLS, too, when a client began with
// TLS right away. mu is held.
func (s *Session) peerSpeaksTLS(f *flow) {
	down := &s.down.dec
	if f.side == event.Frontend && f.dec.framing == tlsUnits && down.framing == messages && !down.started() {
		down.framing = tlsUnits
	}
}
