package diagnose

import (
	"slices"

	"deadwire/harness/event"
)

// heedGuard takes back what a tap kept from the server: a Terminate that its sender,
// who only held the session beside its opener, could not be kept from sending, since
// a part of it had left already. It ended nothing; what came later did.
func (s *session) heedGuard() {
	dropped := slices.IndexFunc(s.front.messages, func(e event.Event) bool { return e.Message.Type == typeTerminate && e.Message.Dropped })
	guilty := slices.IndexFunc(s.front.calls, s.isForeignTerminate)
	if dropped < 0 || guilty < 0 {
		return
	}
	call := *s.front.calls[guilty].Call
	call.Blocked = true
	s.front.calls[guilty].Call = &call
	at := slices.IndexFunc(s.front.closings, func(e event.Event) bool {
		return e.Closing.Manner == event.Terminate && e.Seq > s.front.calls[guilty].Seq
	})
	later := slices.ContainsFunc(s.front.calls[guilty:], func(e event.Event) bool {
		return e.Call.Name == event.CallSend && e.Call.Type == typeTerminate && !e.Call.Blocked
	})
	if at < 0 || at+1 == len(s.front.closings) {
		return
	}
	s.front.closings = slices.Delete(s.front.closings, at, at+1)
	if next := &s.front.closings[at]; later && next.Closing.From == event.Frontend {
		closing := *next.Closing // a tap announces one Terminate of a session
		closing.Manner = event.Terminate
		next.Closing = &closing
	}
}

// isForeignTerminate reports whether a call sends Terminate from a process that did
// not open the session, while the one that did holds it.
func (s *session) isForeignTerminate(e event.Event) bool {
	opener := s.opener()
	return e.Call.Name == event.CallSend && e.Call.Type == typeTerminate && !e.Call.Blocked &&
		opener != 0 && e.PID != opener && slices.Contains(e.Call.Holders, opener)
}
