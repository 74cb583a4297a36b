package tap

import (
	"sync"
	"sync/atomic"

	"deadwire/harness/event"
)

// Cut is a way to end a session, or to silence it, from the middle.
type Cut string

// The cuts.
const (
	CutFIN         Cut = "fin"          // both legs, each with FIN
	CutRST         Cut = "rst"          // both legs, each with RST (on a unix socket: a plain close)
	CutBlackhole   Cut = "blackhole"    // keep both sockets open, swallow every byte from now on
	CutFrontendFIN Cut = "frontend-fin" // FIN towards the subject only; its bytes still reach the server
	CutBackendFIN  Cut = "backend-fin"  // FIN towards the server only; its bytes still reach the subject
)

// Action is what a rule does: a Cut, Stall, Drop or InjectError.
type Action interface{ action() }

// Stall holds the message, and everything behind it in its direction, until
// Session.Release or until the rule is removed.
type Stall struct{}

// Drop swallows just this message.
type Drop struct{}

// InjectError answers the frontend with an ErrorResponse in the message's place.
//
// A matched message of the frontend does not reach the server; of an extended query
// neither does the rest up to Sync. Severity ERROR (also when empty) leaves the
// session usable: the error goes out just before the server's own ReadyForQuery.
// FATAL and PANIC go out at once and end the session with Then, or CutFIN when Then
// is empty. A matched message of the backend is replaced.
type InjectError struct {
	SQLState string // five characters; the server's list is appendix A of its manual
	Text     string
	Severity string // ERROR, FATAL or PANIC
	Then     Cut
}

func (Cut) action()         {}
func (Stall) action()       {}
func (Drop) action()        {}
func (InjectError) action() {}

// Rule acts on messages as they pass. While any rule is present a message is held
// back from its first byte until it is complete or 64 KiB of it are there; only a
// message that was under way when the first rule came may already have passed in
// part, and then Drop and InjectError leave it alone.
type Rule struct {
	Cause string // fault id, recorded as Closing.Cause
	// Match is asked about each message, of one session at a time. It sees the
	// session as it was before the message, and must not call AddRule.
	Match  func(s *Session, m event.Message) bool
	Skip   int  // let this many matches pass, counted over all sessions
	Always bool // act on every match after that, not only on the first
	Do     Action
	After  bool // act once the message has been forwarded entirely, not before
	// Fired is called just before the action takes place; nil is allowed.
	Fired func(s *Session, m event.Message)
}

// activeRule is a rule with what it has counted.
type activeRule struct {
	Rule
	removed chan struct{}

	mu   sync.Mutex
	seen int
}

// judge reports whether the rule acts on m now.
func (r *activeRule) judge(s *Session, m event.Message, partly bool) bool {
	if partly && !r.canActLate() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen > r.Skip && !r.Always || !r.Match(s, m) {
		return false
	}
	r.seen++
	return r.seen > r.Skip
}

// canActLate reports whether the action makes sense when the message's beginning
// has left already.
func (r *activeRule) canActLate() bool {
	switch r.Do.(type) {
	case Drop, InjectError:
		return r.After
	}
	return true
}

// rules is the set of a tap's rules. Relays read it without a lock.
type rules struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*activeRule]
}

func (r *rules) load() []*activeRule {
	if list := r.list.Load(); list != nil {
		return *list
	}
	return nil
}

func (r *rules) add(rule Rule) *activeRule {
	active := &activeRule{Rule: rule, removed: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	list := append(append([]*activeRule(nil), r.load()...), active)
	r.list.Store(&list)
	return active
}

func (r *rules) remove(active *activeRule) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*activeRule
	for _, a := range r.load() {
		if a != active {
			list = append(list, a)
		}
	}
	if len(list) == len(r.load()) {
		return
	}
	r.list.Store(&list)
	close(active.removed)
}

// judge returns the first rule that acts on m, or nil.
func (r *rules) judge(s *Session, m event.Message, partly bool) *activeRule {
	for _, rule := range r.load() {
		if rule.judge(s, m, partly) {
			return rule
		}
	}
	return nil
}
