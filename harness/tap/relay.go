package tap

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"deadwire/harness/event"
)

// pump moves one direction of a session with blocking calls in a goroutine. Where a
// loop reads and writes instead (direction), a pump does what may have to wait.
type pump struct {
	s        *Session
	flow     *flow
	back     *flow // the opposite direction
	src, dst leg
	other    event.Side
}

// relay moves both directions until both legs have ended.
func (s *Session) relay() {
	up := pump{s: s, flow: &s.up, back: &s.down, src: s.front, dst: s.back, other: event.Backend}
	down := pump{s: s, flow: &s.down, back: &s.up, src: s.back, dst: s.front, other: event.Frontend}
	if !s.loopRelay(up, down) {
		var both sync.WaitGroup
		both.Go(down.run)
		up.run()
		both.Wait()
	}
	_ = errors.Join(s.front.Close(), s.back.Close()) // both have ended: nothing to learn from this
}

func (p *pump) run() {
	for {
		n, err := p.src.Read(p.flow.space())
		p.came(n)
		if !p.forward(p.flow.next()) {
			return
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			_ = p.src.SetReadDeadline(time.Time{}) // woken for an injection; forward took it or waits for a boundary
		default:
			p.ended(err)
			return
		}
	}
}

// came takes in that n bytes were read.
func (p *pump) came(n int) {
	if n > 0 {
		at := p.s.tap.cfg.Recorder.Now()
		p.s.lastAt.Store(int64(at))
		p.flow.added(n, at)
	}
}

// ended hands on what was still held, then the manner of the ending.
func (p *pump) ended(err error) {
	if errors.Is(err, io.EOF) {
		err = nil
		p.write(p.flow.remains())
		if notified(p.src) {
			p.s.takeNotify(p.flow.side)
		}
	}
	p.s.legEnded(p.flow.side, p.dst, err)
}

// forward carries out steps, from st on, until there is nothing left to do. It
// reports whether the direction goes on.
func (p *pump) forward(st step) bool {
	for ; ; st = p.flow.next() {
		if st.rule != nil && p.s.isLast(st.rule) {
			p.back.hushed.Store(true) // else the answer may be quicker than the cut
		}
		p.write(st.out)
		if st.reply != nil {
			_, _ = p.src.Write(st.reply) // a broken leg shows at its reader
		}
		p.write(st.insert)
		switch {
		case st.rule != nil:
			if !p.act(st) {
				return false
			}
		case st.decide:
			p.flow.pass()
		}
		if !st.more {
			return p.sayLastWords()
		}
	}
}

// write passes bytes on. When the other leg takes no more, reading goes on, so that
// this leg's own ending is seen.
func (p *pump) write(b []byte) {
	if len(b) == 0 || p.flow.deaf {
		return
	}
	if _, err := p.dst.Write(b); err != nil {
		p.refused(err)
	}
}

// refused takes in that the other leg takes no more.
func (p *pump) refused(err error) {
	p.flow.deaf = true
	p.s.writeFailed(p.other, p.src, err)
}

// writeFailed takes in that a leg refused bytes. A peer that had closed answers with
// RST: its counterpart, who wrote them, gets the same.
func (s *Session) writeFailed(side event.Side, writer leg, err error) {
	s.mu.Lock()
	finished := false
	for _, c := range s.closings {
		finished = finished || c.From == side && c.Manner == event.FIN && c.Cause == ""
	}
	if errors.Is(err, syscall.ECONNRESET) && !finished {
		s.reset[side] = true
	}
	through := finished && !s.severed
	if through {
		s.severed = true
		close(s.gone)
	}
	s.mu.Unlock()
	if through {
		_ = closeRST(writer)
	}
}

// isLast reports whether a rule ends the session after its message was forwarded.
func (s *Session) isLast(r *activeRule) bool {
	if !r.After {
		return false
	}
	switch do := r.Do.(type) {
	case Cut:
		return do == CutFIN || do == CutRST || do == CutBlackhole
	case InjectError:
		return s.isFinal(do)
	}
	return false
}

// act carries out a rule. It reports whether the direction goes on.
func (p *pump) act(st step) bool {
	if st.rule.Fired != nil {
		st.rule.Fired(p.s, st.msg)
	}
	switch do := st.rule.Do.(type) {
	case Stall:
		return p.stall(st)
	case Drop:
		p.decide(st, false)
	case InjectError:
		return p.inject(st, do)
	case Cut:
		p.decide(st, p.survives(do))
		_ = p.s.Cut(do, st.rule.Cause) // a session that is gone already needs no cut
		return do != CutFIN && do != CutRST
	}
	return true
}

func (p *pump) decide(st step, pass bool) {
	switch {
	case !st.decide:
	case pass:
		p.flow.pass()
	default:
		p.flow.drop()
	}
}

// survives reports whether the direction still delivers after a cut.
func (p *pump) survives(c Cut) bool {
	return c == CutFrontendFIN && p.other == event.Backend || c == CutBackendFIN && p.other == event.Frontend
}

// stall holds the direction until it is released, or the session is cut.
func (p *pump) stall(st step) bool {
	p.s.mu.Lock()
	release := p.s.release
	p.s.mu.Unlock()
	select {
	case <-release:
	case <-st.rule.removed:
	case <-p.s.gone:
		p.decide(st, false)
		return true // the reader finds the closed socket
	}
	p.decide(st, true)
	return true
}
