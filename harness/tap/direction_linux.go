package tap

import (
	"errors"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"deadwire/harness/event"
)

// burst is how many buffers a direction may move before others have their turn.
const burst = 4

// scratchMax bounds the buffer that a loop keeps, in bytes.
const scratchMax = 2 * readSize

// direction is a pump that a loop drives. Its fields, but for over, belong to the
// loop's goroutine, and what they point to does while it is not away.
type direction struct {
	pump
	loop *loop
	in   *socket
	out  *socket
	away bool        // a goroutine carries it on, or it has ended
	over atomic.Bool // it has ended
	both *sync.WaitGroup
}

// loopRelay lets a loop move both directions, until both legs have ended. It reports
// false when it cannot, before anything was moved.
func (s *Session) loopRelay(up, down pump) bool {
	front, okay := s.front.(*socket)
	back, ok := s.back.(*socket)
	if !okay || !ok {
		return false
	}
	l := s.tap.loops.next()
	var both sync.WaitGroup
	both.Add(2)
	fromServer := &direction{pump: down, loop: l, in: back, out: front, both: &both}
	fromClient := &direction{pump: up, loop: l, in: front, out: back, both: &both}
	if err := errors.Join(l.watch(back, fromServer), l.watch(front, fromClient)); err != nil {
		_ = s.cut(CutRST, event.Closing{Text: err.Error()}) // already ended is just as well
	}
	both.Wait()
	return true
}

// readable moves what has come; at the end of it there may be an ending.
func (d *direction) readable(ending bool) {
	if d.away {
		return // it is looked at when it comes back
	}
	for range burst {
		space := d.space()
		n, err := d.in.take(space)
		if errors.Is(err, unix.EAGAIN) {
			d.rest()
			return
		}
		if !d.move(n, err) {
			return
		}
		if n < len(space) && !ending { // epoll(7): then the socket is empty
			d.rest()
			return
		}
	}
	d.loop.post(task{flow: d})
}

// look does what there is to do without new bytes, and then moves what has come.
func (d *direction) look() {
	if !d.away && d.move(0, nil) {
		d.readable(true)
	}
}

// move hands on n bytes that were read, and the error that ended reading. It reports
// whether the loop keeps the direction.
func (d *direction) move(n int, err error) bool {
	d.came(n)
	st := d.flow.next()
	if err == nil && st.plain() && !d.hasLastWords() {
		if st.out = d.offer(st.out); len(st.out) == 0 {
			return true
		}
	}
	d.away = true
	go d.carry(st, err)
	return false
}

// plain reports whether there is nothing to do but to write.
func (st *step) plain() bool {
	return !st.more && !st.decide && st.rule == nil && st.reply == nil && st.insert == nil
}

// offer writes what the other leg has room for, and returns the rest.
func (d *direction) offer(b []byte) []byte {
	if len(b) == 0 || d.flow.deaf {
		return nil
	}
	n, err := d.out.give(b)
	switch {
	case err == nil:
	case errors.Is(err, unix.EAGAIN):
		return b[n:]
	default:
		d.refused(err)
	}
	return nil
}

func (d *direction) hasLastWords() bool {
	if d.flow.side != event.Backend {
		return false
	}
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	return d.s.injected != nil
}

// carry does what may have to wait, in a goroutine of its own.
func (d *direction) carry(st step, err error) {
	goes := d.forward(st)
	if goes && err != nil {
		d.ended(err)
		goes = false
	}
	if goes {
		d.loop.post(task{flow: d, back: true})
		return
	}
	d.over.Store(true)
	d.both.Done()
}

// space lends the direction the loop's buffer, unless it keeps bytes in its own.
func (d *direction) space() []byte {
	if d.flow.buf == nil {
		d.flow.buf, d.loop.scratch = d.loop.scratch, nil
	}
	return d.flow.space()
}

// rest gives the buffer back: a session that waits takes up none.
func (d *direction) rest() {
	if f := d.flow; f.start == f.end {
		if len(f.buf) <= scratchMax {
			d.loop.scratch = f.buf
		}
		f.buf, f.start, f.pos, f.msg, f.end = nil, 0, 0, 0, 0
	}
}
