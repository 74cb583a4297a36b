package tap

import (
	"time"

	"deadwire/harness/event"
)

// noted is a message with the time at which it arrived.
type noted struct {
	at  time.Duration
	msg event.Message
}

// ring remembers a session's last messages in fixed memory. Of a run of rows or of
// COPY data only the first and the last stay: a thousand rows must not push out the
// statement that asked for them.
type ring struct {
	slots []noted
	next  int64 // position of the next message; slot is next modulo the size
	taken int64 // position up to which the messages were handed out
	lost  int64 // forgotten before they were handed out
}

func newRing(size int) ring { return ring{slots: make([]noted, size)} }

func (r *ring) add(at time.Duration, m event.Message) {
	if r.folds(m) {
		r.lost++
		r.next--
	}
	size := int64(len(r.slots))
	if r.next-r.taken == size {
		r.lost++
		r.taken++
	}
	r.slots[r.next%size] = noted{at, m}
	r.next++
}

// folds reports whether the two newest messages and m are alike bulk data.
func (r *ring) folds(m event.Message) bool {
	if m.Type != "DataRow" && m.Type != "CopyData" || r.next-r.taken < 2 {
		return false
	}
	size := int64(len(r.slots))
	one, two := r.slots[(r.next-1)%size].msg, r.slots[(r.next-2)%size].msg
	return same(one, m) && same(two, m)
}

func same(a, b event.Message) bool {
	return a.Type == b.Type && a.From == b.From && a.Dropped == b.Dropped
}

// take hands out what was added since it was last called, oldest first.
func (r *ring) take(give func(at time.Duration, m event.Message)) {
	for size := int64(len(r.slots)); r.taken < r.next; r.taken++ {
		one := r.slots[r.taken%size]
		give(one.at, one.msg)
	}
}
