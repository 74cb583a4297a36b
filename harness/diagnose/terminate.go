package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"deadwire/harness/event"
)

const typeTerminate = "Terminate"

// byTerminate recognises an ending by the Terminate message and asks who wrote
// it: the opener, one that it was handed over to, or one that only inherited it.
func (h *history) byTerminate(s *session, signs []event.Event, e *Ending) bool {
	sign := signs[0]
	if sign.Closing.Manner != event.Terminate || origin(sign) != SideSubject {
		return false
	}
	e.Side = SideSubject
	call := s.call(event.CallSend, typeTerminate, sign)
	if call == nil {
		call = s.goodbye(sign) // the tap could read what the witness could not
	}
	if call != nil {
		h.terminateSeen(s, call, e)
		return true
	}
	h.terminateByHolders(s, sign, e)
	return true
}

// terminateSeen judges a Terminate whose system call was observed.
func (h *history) terminateSeen(s *session, call *event.Event, e *Ending) {
	e.Certainty = Exact
	e.Evidence = append(e.Evidence, call.Seq)
	e.Actor.PID = call.PID
	opener, seen := s.opener(), e.holdersBy(call)
	switch {
	case opener == 0:
		e.Rule, e.Actor.Kind = RuleUnknown, Unknown
		e.Message = fmt.Sprintf("%s sent Terminate; who had opened the session was not seen", h.name(call.PID))
	case call.PID == opener:
		h.terminatedByOpener(s, call, e)
	case !seen:
		e.Rule, e.Actor.Kind = RuleUnknown, Unknown
		e.Message = fmt.Sprintf("%s, which had not opened the session, sent Terminate; whether its opener, pid %d, still held it was not seen", h.name(call.PID), opener)
	case !slices.Contains(e.HoldersAfter, opener):
		e.Rule, e.Actor.Kind = "process.handed-over", Inheritor
		e.Message = fmt.Sprintf("%s closed a session that pid %d had opened and let go of before", h.name(call.PID), opener)
	default:
		e.Rule, e.Actor.Kind = "fork.inherited-terminate", Inheritor
		e.Message = fmt.Sprintf("%s, which had only inherited the session, sent Terminate while its opener, pid %d, still held it", h.name(call.PID), opener)
	}
}

// holdersBy fills in who held the session when call was made and who was left
// then. It returns false when nobody had looked for other holders.
func (e *Ending) holdersBy(call *event.Event) (seen bool) {
	if len(call.Call.Holders) > 0 {
		e.HoldersBefore = slices.Sorted(slices.Values(call.Call.Holders))
	}
	seen = len(e.HoldersBefore) > 0
	if !slices.Contains(e.HoldersBefore, call.PID) {
		e.HoldersBefore = slices.Sorted(slices.Values(append(slices.Clone(e.HoldersBefore), call.PID)))
	}
	e.HoldersAfter = without(e.HoldersBefore, call.PID)
	return seen
}

func (h *history) terminatedByOpener(s *session, call *event.Event, e *Ending) {
	e.Actor.Kind = Opener
	if user := s.userAfter(call); user != 0 {
		e.Rule = "fork.opener-left"
		e.Message = fmt.Sprintf("its opener, %s, sent Terminate while pid %d still used the session", h.name(call.PID), user)
		return
	}
	if left := h.leftBehind(e.HoldersAfter, call.At); left != nil {
		e.Rule = "fork.opener-left"
		e.Evidence = append(e.Evidence, left.exitSeq)
		e.Message = fmt.Sprintf("its opener, %s, sent Terminate while %s still held the session, which then %s without having opened one of its own",
			h.name(call.PID), h.name(left.pid), left.sayExit())
		return
	}
	e.Rule = "close.ordinary"
	e.Message = fmt.Sprintf("its opener, %s, sent Terminate", h.name(call.PID))
}

// leftBehind returns the one holder that was left with a session which its opener
// had closed, if it failed later without a session of its own: libraries that read
// before they write show no more than that.
func (h *history) leftBehind(holders []int, closed time.Duration) *process {
	if len(holders) != 1 {
		return nil
	}
	p := h.processes[holders[0]]
	failed := p != nil && p.exited && p.exitAt > closed && p.execAt == 0 && (p.code != nil && *p.code != 0)
	if !failed {
		return nil
	}
	for _, s := range h.sessions {
		if s.opener() == p.pid {
			return nil
		}
	}
	return p
}

// userAfter returns another process that sent on the session after call, or 0.
func (s *session) userAfter(call *event.Event) int {
	for _, c := range s.front.calls {
		if c.At > call.At && c.PID != call.PID && c.Call.Name == event.CallSend && !saysGoodbye(c.Call) {
			return c.PID
		}
	}
	return 0
}

// terminateByHolders judges a Terminate whose sender was not observed. It names
// a sender only when a single process can have been it.
func (h *history) terminateByHolders(s *session, sign event.Event, e *Ending) {
	others, opener := s.others(), s.opener()
	e.HoldersAfter = orEmpty(s.holdersAfter(sign))
	switch {
	case s.usedAfter(sign):
		e.Rule = "fork.inherited-terminate"
		e.Actor = h.soleSender(e, opener)
		e.Message = "Terminate came over a session that another process went on using" + senderNote(e.Actor)
	case len(others) == 0:
		e.Rule, e.Actor = "close.ordinary", Actor{Kind: Opener, PID: opener}
		if opener == 0 {
			e.Actor.Kind = Unknown
		} else {
			e.Certainty = Holders
		}
		e.Message = "Terminate, and nobody but the opener was seen to hold the session"
	case s.closedAfter(sign):
		e.Rule, e.Actor.Kind = "close.ordinary", Unknown
		e.Message = "Terminate, and the socket was closed with it: whoever sent it was the last holder"
	case slices.Contains(e.HoldersAfter, opener):
		e.Rule = "fork.inherited-terminate"
		e.Actor = h.soleSender(e, opener)
		e.Message = "Terminate came over a session that its opener still held" + senderNote(e.Actor)
	default:
		e.Rule, e.Actor.Kind = RuleUnknown, Unknown
		e.Message = fmt.Sprintf("Terminate on a session held by pids %v; the sender was not observed", append([]int{opener}, others...))
	}
}

// soleSender returns the one inheritor that was seen to let go between the looks
// before and after the ending, if there was just one.
func (h *history) soleSender(e *Ending, opener int) Actor {
	if len(e.HoldersAfter) == 0 {
		return Actor{Kind: Unknown} // nobody has looked since
	}
	var left []int
	for _, pid := range e.HoldersBefore {
		if pid != opener && !slices.Contains(e.HoldersAfter, pid) {
			left = append(left, pid)
		}
	}
	if len(left) == 1 {
		e.Certainty = Holders
		return Actor{Kind: Inheritor, PID: left[0]}
	}
	return Actor{Kind: Unknown}
}

func senderNote(a Actor) string {
	if a.Kind == Unknown {
		return "; the sender was not observed, and the holders do not single it out"
	}
	return fmt.Sprintf("; pid %d alone let go of it at that moment", a.PID)
}

// looksWithin is how soon the holders are looked at again while a session is
// open. Looks that change nothing are not recorded.
const looksWithin = 50 * time.Millisecond

// holdersAfter returns the first holder set that was seen after sign: the same as
// before when the subject's end stayed open long enough for another look. Nil
// when nobody can have looked.
func (s *session) holdersAfter(sign event.Event) []int {
	for _, e := range s.front.shared {
		if e.At > sign.At {
			return e.Holders.PIDs
		}
	}
	if until := s.openUntil(sign); until > 0 && until-sign.At >= looksWithin {
		return s.holdersAt(sign.At)
	}
	return nil
}

// openUntil returns when the subject's end was closed after sign, 0 when that
// was not seen.
func (s *session) openUntil(sign event.Event) time.Duration {
	for _, c := range s.front.closings {
		if c.Seq > sign.Seq && c.Closing.From == event.Frontend {
			return c.At
		}
	}
	if s.front.ended != nil {
		return s.front.ended.At
	}
	return 0
}

// closedAfter reports whether the subject's end was closed after sign and before
// the server answered with its own close: only the last holder's close does that
// (wire facts, section 5).
func (s *session) closedAfter(sign event.Event) bool {
	for _, c := range s.front.closings {
		switch {
		case c.Seq <= sign.Seq:
		case c.Closing.From == event.Backend:
			return false
		case c.Closing.Manner == event.FIN || c.Closing.Manner == event.RST:
			return true
		}
	}
	return false
}

// usedAfter reports whether the subject sent anything but Terminate after sign.
func (s *session) usedAfter(sign event.Event) bool {
	for _, m := range s.front.messages {
		if m.At > sign.At && m.Message.From == event.Frontend && m.Message.Type != typeTerminate && !isNotify(m.Message) {
			return true
		}
	}
	return false
}

// call returns the first observed call of that name on the session whose message
// type is typ ("" for any) and which can have caused sign, or nil. A call is
// recorded before it is carried out, so one that was recorded later did not.
func (s *session) call(name event.CallName, typ string, sign event.Event) *event.Event {
	for i, e := range s.front.calls {
		if e.Call.Name == name && (typ == "" || e.Call.Type == typ) && !e.Call.Blocked && e.Seq < sign.Seq {
			return &s.front.calls[i]
		}
	}
	return nil
}

// byShutdown recognises shutdown(2) on a shared socket, which ends the session
// for every holder as Terminate does (wire facts, section 1).
func (h *history) byShutdown(s *session, signs []event.Event, e *Ending) bool {
	sign := signs[0]
	call := s.call(event.CallShutdown, "", sign)
	if call == nil || origin(sign) != SideSubject || sign.Closing.Manner == event.Terminate {
		return false
	}
	opener, seen := s.opener(), e.holdersBy(call)
	e.Side, e.Certainty, e.Actor.PID = SideSubject, Exact, call.PID
	e.Evidence = append(e.Evidence, call.Seq)
	switch {
	case call.PID == opener:
		e.Rule, e.Actor.Kind = "close.ordinary", Opener
		e.Message = fmt.Sprintf("its opener, %s, shut the socket down without Terminate", h.name(call.PID))
	case opener == 0 || !seen:
		e.Rule, e.Actor.Kind = RuleUnknown, Unknown
		e.Message = fmt.Sprintf("%s shut the socket down; whether another process had opened it and still held it was not seen", h.name(call.PID))
	case !slices.Contains(e.HoldersAfter, opener):
		e.Rule, e.Actor.Kind = "process.handed-over", Inheritor
		e.Message = fmt.Sprintf("%s shut down a session that pid %d had opened and let go of before", h.name(call.PID), opener)
	default:
		e.Rule, e.Actor.Kind = "fork.inherited-terminate", Inheritor
		e.Message = fmt.Sprintf("%s, which had only inherited the session, shut its socket down while its opener, pid %d, still held it", h.name(call.PID), opener)
	}
	return true
}

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
	e.Rule = "process.died"
	e.Message = fmt.Sprintf("the kernel closed it: %s %s", h.name(last.pid), last.sayExit())
	return true
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

// name says a process for humans: its pid and the short form of its command.
func (h *history) name(pid int) string {
	p := h.processes[pid]
	if p == nil || len(p.argv) == 0 {
		return fmt.Sprintf("pid %d", pid)
	}
	argv := slices.Clone(p.argv)
	argv[0] = argv[0][strings.LastIndexByte(argv[0], '/')+1:]
	return fmt.Sprintf("pid %d (%s)", pid, clip(strings.Join(argv[:min(len(argv), 4)], " ")))
}
