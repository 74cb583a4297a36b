package tap

import (
	"sync/atomic"
	"time"

	"deadwire/harness/event"
)

// sizes of a flow's buffer, in bytes
const (
	readSize = 32 << 10
	holdMax  = 64 << 10 // of one message, held back for the rules
)

// flow is one direction of a session without any input or output: bytes go in, and
// steps come out that say what to write and which rule acts. Whoever moves the
// bytes, goroutines or an event loop, drives it the same way: read into space, call
// added, then next (and pass or drop where a step asks for it) until a step has no
// more.
type flow struct {
	s    *Session
	side event.Side
	dec  decoder

	buf        []byte
	start      int          // bytes before it have been handed out
	pos        int          // bytes before it have been decoded
	end        int          // bytes before it are there
	widest     atomic.Int64 // bytes that were ever made room for at once
	at         time.Duration
	msg        int  // where the frame in progress begins, when all of it is here
	partly     bool // the beginning of the frame in progress has left
	judged     bool // the frame in progress was judged by its beginning, and passes
	dropping   bool // it was judged by its beginning, and is swallowed
	late       *activeRule
	lateMsg    event.Message
	skipping   bool        // swallow until the exchange ends, after an injected error
	deaf       bool        // the other leg takes no more bytes
	hushed     atomic.Bool // a rule of the other direction is about to end the session
	pending    event.Message
	ending     event.Closing
	ends       bool
	incomplete bool
}

// step is what is to be done next, in the order of its fields.
type step struct {
	out    []byte      // write to the other leg
	reply  []byte      // write back to the leg from which the bytes came
	insert []byte      // write to the other leg: not from the stream
	rule   *activeRule // acts
	msg    event.Message
	decide bool // the message waits for pass or drop
	more   bool // call next again
}

// space returns room to read into.
func (f *flow) space() []byte {
	if f.start == f.end {
		f.start, f.pos, f.msg, f.end = 0, 0, 0, 0
	}
	if len(f.buf)-f.end < readSize/2 {
		f.makeRoom()
	}
	return f.buf[f.end:]
}

func (f *flow) makeRoom() {
	old := f.buf
	if need := f.end - f.start + readSize; need > len(f.buf) {
		f.buf = make([]byte, need)
		f.widest.Store(max(f.widest.Load(), int64(need)))
	}
	n := copy(f.buf, old[f.start:f.end])
	f.pos, f.msg, f.end, f.start = f.pos-f.start, f.msg-f.start, n, 0
}

// added takes in n bytes that were read into space.
func (f *flow) added(n int, at time.Duration) {
	f.end += n
	f.at = at
}

// next decodes up to the first point where something has to be done.
func (f *flow) next() step {
	rules := &f.s.tap.rules
	judging := len(rules.load()) > 0
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	for f.pos < f.end {
		if !f.dec.started() {
			f.begin()
		}
		startup := f.dec.framing == packets
		n, done := f.dec.feed(f.buf[f.pos:f.end])
		f.pos += n
		switch {
		case f.dec.framing == raw && !done:
			return f.raw()
		case !done:
		case startup:
			if st := f.packet(judging); st.more {
				return st
			}
		default:
			if st := f.message(judging); st.more {
				return st
			}
		}
	}
	return f.rest(judging)
}

func (f *flow) begin() {
	f.msg = f.pos
	f.partly, f.judged, f.dropping, f.late = false, false, false, nil
}

// raw hands on what is not understood.
func (f *flow) raw() step {
	f.reportDesync()
	f.pos = f.end
	return step{out: f.handOut(f.end)}
}

func (f *flow) reportDesync() {
	if f.dec.bad != "" {
		f.s.closing(event.Closing{From: f.side, Manner: event.Desync, Text: f.dec.bad})
		f.dec.bad = ""
	}
}

// handOut returns the bytes up to position to, or none when they are swallowed.
func (f *flow) handOut(to int) []byte {
	out := f.buf[f.start:to]
	f.start = to
	if f.muted() {
		return nil
	}
	f.count(len(out))
	return out
}

func (f *flow) count(n int) {
	if f.side == event.Frontend {
		f.s.totals.BytesToServer += int64(n)
		return
	}
	f.s.totals.BytesToClient += int64(n)
}

func (f *flow) muted() bool { return f.deaf || f.hushed.Load() || f.s.swallow.Load() }

// remains hands out what was held when the stream ended.
func (f *flow) remains() []byte {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if f.dropping || f.skipping {
		return nil
	}
	return f.handOut(f.end)
}

// packet handles a complete start-up packet. It is always held from its first byte.
func (f *flow) packet(judging bool) step {
	m, what := f.s.startup(&f.dec)
	switch what {
	case decline:
		f.s.note(f.at, m)
		out := f.handOut(f.msg)
		f.start = f.pos
		return step{out: out, reply: []byte{'N'}, more: true}
	case unknown:
		f.reportDesync()
		return step{}
	}
	return f.judge(m, judging)
}

// message handles a complete message, TLS record or answer to SSLRequest.
func (f *flow) message(judging bool) step {
	if f.dec.framing == answer {
		f.s.answered(&f.dec)
		return step{}
	}
	f.s.peerSpeaksTLS(f)
	m := f.s.classify(&f.dec)
	switch {
	case f.dropping, f.skips():
		return f.swallowed(m)
	case f.owesError():
		return f.wait(m, step{insert: f.s.nextError()})
	case f.late != nil:
		f.account(m)
		return step{out: f.handOut(f.pos), rule: f.late, msg: f.lateMsg, more: true}
	}
	return f.judge(m, judging && !f.judged)
}

// judge asks the rules about a complete message and settles it if none acts.
func (f *flow) judge(m event.Message, judging bool) step {
	rule := f.ask(m, judging)
	switch {
	case rule == nil:
		f.account(m)
		return step{}
	case rule.After:
		f.account(m)
		return step{out: f.handOut(f.pos), rule: rule, msg: m, more: true}
	}
	return f.wait(m, step{rule: rule})
}

// ask lets go of the session while the rules look at it.
func (f *flow) ask(m event.Message, judging bool) *activeRule {
	if !judging || f.muted() {
		return nil
	}
	f.s.mu.Unlock()
	defer f.s.mu.Lock()
	return f.s.tap.rules.judge(f.s, m, f.partly)
}

// wait stops before a message until pass or drop is called. What the subject has
// sent counts already.
func (f *flow) wait(m event.Message, st step) step {
	st.out = f.handOut(f.msgStart())
	f.pending, f.ends = m, false
	if f.side == event.Frontend && !f.incomplete {
		f.ending, f.ends = f.s.settle(&f.dec, &m)
	}
	st.msg, st.decide, st.more = m, true, true
	return st
}

// rest ends a round: everything decodable is decoded.
func (f *flow) rest(judging bool) step {
	holds := judging || f.dec.framing == packets || len(f.s.errors) > 0
	switch {
	case !f.dec.started() || f.dropping:
	case !holds || f.partly || f.judged || f.late != nil || f.muted():
		f.partly = true
	case f.end-f.msg < holdMax:
		return step{out: f.handOut(f.msg)}
	default:
		return f.judgeEarly(judging)
	}
	if f.dropping {
		f.start = f.end
	}
	return step{out: f.handOut(f.end)}
}

// judgeEarly asks the rules about a message that is too long to be held.
func (f *flow) judgeEarly(judging bool) step {
	m := f.s.preview(&f.dec)
	f.judged = true
	rule := f.ask(m, judging)
	switch {
	case rule == nil:
	case rule.After:
		f.late, f.lateMsg = rule, m
	default:
		f.incomplete = true
		return f.wait(m, step{rule: rule})
	}
	f.partly = true
	return step{out: f.handOut(f.end), more: false}
}
