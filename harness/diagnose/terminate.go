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
	call := s.call(event.CallSend, typeTerminate, sign)
	garbled := sign.Closing.Manner == event.Desync && call != nil // a plain one in the middle of TLS
	if sign.Closing.Manner != event.Terminate && !garbled || origin(sign) != SideSubject {
		return false
	}
	e.Side = SideSubject
	if call == nil { // the tap could read what the witness could not
		call = s.loneRecord(sign)
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
	if used := h.usedWithoutOpener(s, call); used != nil {
		e.Rule = "fork.opener-left"
		e.Evidence = append(e.Evidence, used.Seq)
		e.Message = fmt.Sprintf("its opener, %s, sent Terminate while %s still held the session, and asked over it afterwards", h.name(call.PID), h.names(s.heirs(used.At)))
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

// usedWithoutOpener returns the first message on the session after the opener's
// Terminate that its opener cannot have sent, since by then it had let go: the sends
// themselves need not have been looked at. Nil for none.
func (h *history) usedWithoutOpener(s *session, call *event.Event) *event.Event {
	for i, sign := range s.front.closings {
		if sign.Seq < call.Seq || sign.Closing.Manner != event.Terminate {
			continue
		}
		used := s.usedAfter(s.front.closings[i])
		if used == nil || len(s.heirs(used.At)) == 0 {
			return nil
		}
		return used
	}
	return nil
}

// heirs returns who held the session at that time, if its opener had let go; nil
// while the opener held it, or when nobody was seen to.
func (s *session) heirs(at time.Duration) []int {
	pids := s.holdersAt(at)
	if slices.Contains(pids, s.opener()) {
		return nil
	}
	return pids
}

// names says several processes for humans.
func (h *history) names(pids []int) string {
	var said []string
	for _, pid := range pids {
		said = append(said, h.name(pid))
	}
	return strings.Join(said, ", ")
}

// leftBehind returns the one holder that was left with a session which its opener
// had closed, if it failed later without a session of its own: libraries that read
// before they write show no more than that. Who forked it and left, as a daemon's
// first child does, does not count.
func (h *history) leftBehind(holders []int, closed time.Duration) *process {
	holders = slices.DeleteFunc(slices.Clone(holders), func(pid int) bool {
		p := h.processes[pid]
		return p != nil && p.exited && p.code != nil && *p.code == 0 && h.forkedOneOf(pid, holders)
	})
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

func (h *history) forkedOneOf(pid int, pids []int) bool {
	return slices.ContainsFunc(pids, func(other int) bool { p := h.processes[other]; return p != nil && p.ppid == pid })
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

// terminateByHolders judges a Terminate whose sender was not observed. Looks at
// the holders never tell who sent it: a child may have come, written and gone
// between two of them. So nobody is named; what came after tells what it was.
func (h *history) terminateByHolders(s *session, sign event.Event, e *Ending) {
	others, opener := s.others(), s.opener()
	e.HoldersAfter = orEmpty(s.holdersAfter(sign))
	e.Actor.Kind = Unknown
	used := s.usedAfter(sign)
	switch {
	case used != nil && h.goneBy(opener, used.At):
		e.Rule = "fork.opener-left"
		e.Evidence = append(e.Evidence, used.Seq, h.processes[opener].exitSeq)
		e.Message = fmt.Sprintf("Terminate came over a session that another process used after its opener, pid %d, had exited", opener) + candidates(opener, others)
	case used != nil:
		e.Rule = "fork.inherited-terminate"
		e.Evidence = append(e.Evidence, used.Seq)
		e.Message = "Terminate came over a session that went on being used, so another process than its user sent it" + candidates(opener, others)
	case len(others) == 0:
		e.Rule = "close.ordinary"
		e.Message = "Terminate, and nobody used the session after it"
		if opener != 0 {
			e.Message += fmt.Sprintf("; nobody but its opener, pid %d, was seen to hold it", opener)
		}
	// Where the tap ends TLS, what looks like FIN may be a close_notify, which closes no socket.
	case s.closedAfter(sign) && (!s.secured() || s.encrypted()):
		e.Rule = "close.ordinary"
		e.Message = "Terminate, and the socket was closed with it: whoever sent it was the last holder"
	case opener != 0 && s.heldOn(opener, sign):
		e.Rule = "fork.inherited-terminate"
		e.Message = fmt.Sprintf("Terminate came over a session that its opener, pid %d, held for longer than a driver takes to close it", opener) + candidates(opener, others)
	default:
		e.Rule = RuleUnknown
		e.Message = "Terminate on a shared session that nobody used after it" + candidates(opener, others)
	}
}

// goneBy reports whether a process is known to have exited before then.
func (h *history) goneBy(pid int, then time.Duration) bool {
	p := h.processes[pid]
	return p != nil && p.exited && p.exitAt < then
}

// candidates lists who may have sent what nobody was seen to send.
func candidates(opener int, others []int) string {
	if opener == 0 && len(others) == 0 {
		return "; no process was looked at, so the sender is not known"
	}
	seen := others
	if opener != 0 {
		seen = append([]int{opener}, others...)
	}
	return fmt.Sprintf("; the sender was not observed: pids %v were seen to hold the session", seen)
}

// closeLag is how much later than its Terminate a driver closes the socket, at the
// very most: between the two it does nothing but one system call.
const closeLag = 500 * time.Millisecond

// heldOn reports whether pid was seen to hold the session for longer after sign
// than the one who sent Terminate does.
func (s *session) heldOn(pid int, sign event.Event) bool {
	holds := slices.Contains(s.holdersAt(sign.At), pid)
	for _, e := range s.front.shared {
		if e.At > sign.At && e.At <= sign.At+closeLag {
			holds = holds && slices.Contains(e.Holders.PIDs, pid)
		}
	}
	return holds && s.openUntil(sign) > sign.At+closeLag
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

// usedAfter returns the first thing but a goodbye that the subject sent after
// sign, or nil.
func (s *session) usedAfter(sign event.Event) *event.Event {
	for i, m := range s.front.messages {
		// A tap records what one read brought in its order, but with the time of the read.
		if m.Seq > sign.Seq && m.Message.From == event.Frontend && m.Message.Type != typeTerminate && !isNotify(m.Message) {
			return &s.front.messages[i]
		}
	}
	return nil
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
