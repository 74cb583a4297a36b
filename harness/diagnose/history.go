package diagnose

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"deadwire/harness/event"
)

// far lies after every event; it stands for "has not happened".
const far = time.Duration(1<<63 - 1)

// process is what the journal knows of one process of the subject.
type process struct {
	pid, ppid int
	argv      []string
	execAt    time.Duration // last exec, 0 for none
	exited    bool
	exitAt    time.Duration
	exitSeq   int64
	code      *int
	signal    string
	aliveAt   time.Duration // of the last thing that it was seen to do
}

// view is one session as one tap saw it.
type view struct {
	id       event.SessionID
	opened   event.Event
	named    *event.Event
	closings []event.Event
	ended    *event.Event
	messages []event.Event
	calls    []event.Event
	shared   []event.Event
	cancel   bool
}

// session joins the views of one session: what the subject saw, what the server saw.
type session struct {
	number      int
	front, back *view
	shared      map[int]bool // pids beside the opener that were seen to hold the subject's end
}

// history is the journal, folded by process and session.
type history struct {
	events    []event.Event
	processes map[int]*process
	sessions  []*session
	faults    map[string]event.Event // injected, by id
	healed    map[string]time.Duration
	logs      []event.Event
	changes   []event.Event
}

func fold(events []event.Event) *history {
	// The order of recording is the order of causes: the witness records a call
	// before it lets the caller go on, while At is when the call was begun.
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b event.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	h := &history{
		events:    events,
		processes: map[int]*process{},
		faults:    map[string]event.Event{},
		healed:    map[string]time.Duration{},
	}
	views := map[event.SessionID]*view{}
	var order []*view
	for _, e := range events {
		h.foldProcess(e)
		h.foldWorld(e)
		if e.Session.IsZero() {
			continue
		}
		v := views[e.Session]
		if v == nil {
			v = &view{id: e.Session, opened: e}
			views[e.Session] = v
			order = append(order, v)
		}
		v.add(e)
	}
	h.sessions = join(order)
	for _, s := range h.sessions {
		s.heedGuard()
		h.collectHolders(s)
	}
	return h
}

func (h *history) foldProcess(e event.Event) {
	h.foldLife(e)
	if e.Process == nil {
		return
	}
	p := h.processes[e.PID]
	if p == nil || (p.exited && e.Kind == event.ProcessStarted) {
		p = &process{pid: e.PID, exitAt: far}
		h.processes[e.PID] = p
	}
	if e.Process.PPID != 0 && p.ppid == 0 {
		p.ppid = e.Process.PPID
	}
	if len(e.Process.Argv) > 0 {
		p.argv = e.Process.Argv
	}
	if e.Kind == event.ProcessExeced {
		p.execAt = e.At
	}
	if e.Kind == event.ProcessExited && !p.exited {
		p.exited, p.exitAt, p.exitSeq = true, e.At, e.Seq
		p.code, p.signal = e.Process.Code, e.Process.Signal
	}
}

// foldLife notes that a process did something, and so was alive.
func (h *history) foldLife(e event.Event) {
	pid := 0
	switch {
	case e.Kind == event.ProcessCalled:
		pid = e.PID
	case e.Opened != nil:
		pid = e.Opened.Opener
	}
	if p := h.processes[pid]; p != nil {
		p.aliveAt = max(p.aliveAt, e.At)
	}
}

func (h *history) foldWorld(e event.Event) {
	switch e.Kind {
	case event.FaultInjected:
		h.faults[e.Fault.ID] = e
	case event.FaultHealed:
		h.healed[e.Fault.ID] = e.At
	case event.ServerLogged:
		h.logs = append(h.logs, e)
	case event.ServerChanged:
		h.changes = append(h.changes, e)
	default:
	}
}

func (v *view) add(e event.Event) {
	switch e.Kind {
	case event.SessionOpened:
		v.opened = e
	case event.SessionNamed:
		v.named = &e
	case event.SessionClosing:
		v.closings = append(v.closings, e)
	case event.SessionEnded:
		v.ended = &e
	case event.SessionMessage:
		v.messages = append(v.messages, e)
		// A cancel request travels on a connection of its own and is no session.
		v.cancel = v.cancel || e.Message.Type == "CancelRequest"
	case event.ProcessCalled:
		v.calls = append(v.calls, e)
	case event.SessionShared:
		v.shared = append(v.shared, e)
	default:
	}
}

// collectHolders gathers who held the session beside its opener. A process
// between fork and exec holds every descriptor of its parent for a moment; one
// that let go with its exec and never sent a byte is no holder.
func (h *history) collectHolders(s *session) {
	opener := s.opener()
	for n, e := range s.front.shared {
		for _, pid := range e.Holders.PIDs {
			if pid != opener && !h.passing(s, n, pid) {
				s.shared[pid] = true
			}
		}
	}
	for _, e := range s.front.calls {
		if e.PID != opener && e.Call.Name != event.CallConnect {
			s.shared[e.PID] = true
		}
		// Seen by the process that called, so it may be between fork and exec.
		for _, pid := range e.Call.Holders {
			if pid != opener && !h.execedAfter(pid, e.At) {
				s.shared[pid] = true
			}
		}
	}
}

// passing reports whether pid, in the nth set of holders, was only on its way
// from fork to exec: it exec'ed about then, and was later seen without the
// descriptor while it lived on, or had so short a life that it held nothing of
// its own.
func (h *history) passing(s *session, n, pid int) bool {
	const shortLife = 150 * time.Millisecond
	if !h.execedAfter(pid, s.front.shared[n].At) {
		return false
	}
	p := h.processes[pid]
	for _, e := range s.front.shared[n+1:] {
		if !slices.Contains(e.Holders.PIDs, pid) {
			return p.exitAt > e.At || e.At-p.execAt < shortLife
		}
	}
	return false
}

// execedAfter reports whether pid exec'ed after that moment, or so shortly
// before it that a look at its descriptors may still have been from before.
func (h *history) execedAfter(pid int, at time.Duration) bool {
	const lookTakes = 100 * time.Millisecond
	p := h.processes[pid]
	return p != nil && p.execAt > 0 && p.execAt > at-lookTakes
}

func (v *view) backendPID() int {
	if v == nil || v.named == nil {
		return 0
	}
	return v.named.Named.BackendPID
}

// opener is the pid that called connect, 0 when it is not known.
func (s *session) opener() int {
	if s.front.opened.Opened != nil && s.front.opened.Opened.Opener != 0 {
		return s.front.opened.Opened.Opener
	}
	for _, e := range s.front.shared {
		if e.Holders.Opener != 0 {
			return e.Holders.Opener
		}
	}
	return 0
}

// role is what the session was for: the last part of its application name.
func (s *session) role() string {
	if s.front.named == nil {
		return ""
	}
	name := s.front.named.Named.ApplicationName
	return name[strings.LastIndexByte(name, '/')+1:]
}

// closings returns the signs of ending of both views in the order of time, each
// with the place where it was seen.
func (s *session) closings() []event.Event {
	all := slices.Clone(s.front.closings)
	if s.back != nil {
		all = append(all, s.back.closings...)
	}
	slices.SortStableFunc(all, func(a, b event.Event) int { return cmp.Compare(a.At, b.At) })
	return all
}

// others returns the pids that held the session beside the opener, ascending.
func (s *session) others() []int { return slices.Sorted(maps.Keys(s.shared)) }

// holdersAt returns the last known holders at time at, or nil.
func (s *session) holdersAt(at time.Duration) []int {
	var pids []int
	for _, e := range s.front.shared {
		if e.At <= at {
			pids = e.Holders.PIDs
		}
	}
	return pids
}

// messages returns the recorded messages of the front view in the order of time.
func (s *session) messages() []event.Event { return sorted(s.front.messages) }

func (s *session) backMessages() []event.Event {
	if s.back == nil {
		return nil
	}
	return sorted(s.back.messages)
}

func sorted(events []event.Event) []event.Event {
	out := slices.Clone(events)
	slices.SortStableFunc(out, func(a, b event.Event) int { return cmp.Compare(a.At, b.At) })
	return out
}
