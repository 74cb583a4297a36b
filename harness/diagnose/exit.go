package diagnose

import (
	"fmt"
	"slices"
	"time"

	"deadwire/harness/event"
)

// byExit recognises a FIN or RST that the kernel sent because the last holder exited.
func (h *history) byExit(s *session, signs []event.Event, e *Ending) bool {
	sign := signs[0]
	if origin(sign) != SideSubject || sign.Closing.Manner == event.Terminate {
		return false
	}
	last := h.lastToExit(s, sign)
	if last == nil {
		return false
	}
	e.Side, e.Actor = SideSubject, Actor{Kind: Kernel, PID: last.pid}
	e.Evidence = append(e.Evidence, last.exitSeq)
	e.Certainty = Holders
	if len(e.HoldersBefore) == 0 {
		e.HoldersBefore = []int{last.pid}
	}
	if opener := h.processes[s.opener()]; last.pid != s.opener() && opener != nil && opener.exitAt < sign.At {
		e.Rule = "fork.held-by-descendant"
		e.Evidence = append(e.Evidence, opener.exitSeq)
		e.Message = fmt.Sprintf("its opener, %s, %s %.0f ms before; %s still held the socket, so session, transaction and locks lived on until it %s",
			h.name(opener.pid), opener.sayExit(), (sign.At-opener.exitAt).Seconds()*1000, h.name(last.pid), last.sayExit())
		return true
	}
	if !h.watched(last.pid) && !last.struck() {
		h.exitUnproven(last, e)
		return true
	}
	e.Rule = ruleDied
	e.Message = fmt.Sprintf("the kernel closed it: %s %s", h.name(last.pid), last.sayExit())
	return true
}

// watched reports whether the system calls of a process were observed: then a
// shutdown of the socket would have been seen.
func (h *history) watched(pid int) bool {
	return slices.ContainsFunc(h.events, func(e event.Event) bool { return e.Kind == event.ProcessCalled && e.PID == pid })
}

// struck reports whether a process was ended by a signal from outside, which no
// lost session brings about.
func (p *process) struck() bool { return p.signal != "" && p.signal != "SIGPIPE" }

// exitUnproven judges a close near an exit of a process whose calls nobody saw: a
// child that shut the socket down makes its parent fail and exit just so.
func (h *history) exitUnproven(last *process, e *Ending) {
	e.Actor = Actor{Kind: Kernel}
	if last.code != nil && *last.code == 0 {
		e.Rule, e.Certainty = ruleDied, Inferred
		e.Message = fmt.Sprintf("closed without Terminate about when %s %s", h.name(last.pid), last.sayExit())
		return
	}
	e.Rule, e.Certainty, e.Actor.Kind = RuleUnknown, Inferred, Unknown
	e.Message = fmt.Sprintf("closed without Terminate about when %s %s: its exit can be the cause or the consequence, and no system calls were observed",
		h.name(last.pid), last.sayExit())
}

// lastToExit returns the holder whose exit caused the FIN of sign: the last one
// to exit about then, provided that no known holder lived on.
func (h *history) lastToExit(s *session, sign event.Event) *process {
	var last *process
	reach := exitWindow
	for _, pid := range s.candidates(sign) {
		p := h.processes[pid]
		switch {
		case p != nil && p.aliveAt > sign.At:
			// It was alive when the FIN had come, so it had let go before. That may
			// have been the cause, unless an exit lies very near.
			reach = finLag
		case p == nil || !p.exited || p.exitAt > sign.At+exitWindow:
			return nil // a holder that lives on: the FIN has another reason
		case last == nil || p.exitAt > last.exitAt:
			last = p
		}
	}
	if last != nil && (!near(last.exitAt, sign.At, reach) || last.exitAt < sign.At-exitEarly) {
		return nil
	}
	return last
}

// candidates returns who may have been the last holder when sign came: the
// opener, and each other that was a holder in earnest and was not seen to have
// let go well before.
func (s *session) candidates(sign event.Event) []int {
	var pids []int
	if o := s.opener(); o != 0 {
		pids = append(pids, o)
	}
	for _, pid := range s.others() {
		if s.heldUntil(pid) >= sign.At-lookWindow {
			pids = append(pids, pid)
		}
	}
	return pids
}

// lookWindow is how long the last look at the holders may lie behind an ending:
// a look may see the descriptor gone before the tap sees the FIN.
const lookWindow = 250 * time.Millisecond

// heldUntil returns when pid was first seen not to hold the session any more,
// after it had; far when it never was.
func (s *session) heldUntil(pid int) time.Duration {
	until := far
	held := false
	for _, e := range s.front.shared {
		switch now := slices.Contains(e.Holders.PIDs, pid); {
		case now:
			held, until = true, far
		case held && until == far:
			until = e.At
		}
	}
	return until
}

func (p *process) sayExit() string {
	switch {
	case p.signal != "":
		return "was killed by " + p.signal
	case p.code != nil:
		return fmt.Sprintf("exited with code %d", *p.code)
	default:
		return "exited (code not known)"
	}
}
