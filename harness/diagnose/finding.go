package diagnose

import (
	"fmt"
	"slices"
	"time"

	"deadwire/harness/event"
)

// findings returns what is wrong with s beside its ending.
func (h *history) findings(s *session) []Finding {
	var out []Finding
	if f, ok := h.sharedQuery(s); ok {
		out = append(out, f)
	}
	if f, ok := h.threadsShare(s); ok {
		out = append(out, f)
	}
	if f, ok := h.ambiguousCommit(s); ok {
		out = append(out, f)
	}
	if f, ok := h.heldByDescendant(s); ok {
		out = append(out, f)
	}
	if f, ok := h.clientGone(s); ok {
		out = append(out, f)
	}
	return append(out, h.suppressed(s)...)
}

// sharedQuery finds a session on which more than one process sent requests
// (family F01): answers change hands, usually without any error.
func (h *history) sharedQuery(s *session) (Finding, bool) {
	first := map[int]event.Event{}
	for _, c := range s.front.calls {
		if c.Call.Name != event.CallSend || c.Call.Type == typeTerminate || !isRequest(c.Call.Type) {
			continue
		}
		if _, seen := first[c.PID]; !seen {
			first[c.PID] = c
		}
	}
	if len(first) < 2 || h.handedOver(s, first) {
		return Finding{}, false
	}
	f := Finding{Rule: "fork.shared-query", Session: s.number}
	for pid, call := range first {
		f.PIDs = append(f.PIDs, pid)
		f.Evidence = append(f.Evidence, call.Seq)
	}
	slices.Sort(f.PIDs)
	slices.Sort(f.Evidence)
	f.Message = fmt.Sprintf("pids %v sent requests over one session, opened by %s: each reads the other's answers", f.PIDs, h.name(s.opener()))
	f.Mend = mendFor(f.Rule, h.software(s))
	return f, true
}

// isRequest reports whether a message of that type asks the server for something.
func isRequest(typ string) bool {
	switch typ {
	case "Query", "Parse", "Bind", "Execute", "Describe", "Sync", "FunctionCall", "CopyData":
		return true
	default:
		return false
	}
}

// handedOver reports whether the senders used the session one after the other,
// each one only after its predecessor had exited.
func (h *history) handedOver(s *session, first map[int]event.Event) bool {
	for pid := range first {
		for _, c := range s.front.calls {
			if c.PID == pid && c.Call.Name == event.CallSend && h.overlaps(c, first) {
				return false
			}
		}
	}
	return true
}

// overlaps reports whether another sender, which began before call, was alive at it.
func (h *history) overlaps(call event.Event, first map[int]event.Event) bool {
	for pid, begun := range first {
		if pid == call.PID || begun.At > call.At {
			continue
		}
		if p := h.processes[pid]; p == nil || p.exitAt > call.At {
			return true
		}
	}
	return false
}

// ambiguousCommit finds a session that was lost between COMMIT and its answer
// (family F21), and says from the back tap what really became of it.
func (h *history) ambiguousCommit(s *session) (Finding, bool) {
	signs := s.closings()
	if len(signs) == 0 || h.leftByItself(s, signs[0]) {
		return Finding{}, false
	}
	sent := commit(s.messages(), event.Frontend, 0)
	if sent == nil || !h.lostCommitting(s, signs[0], sent) {
		return Finding{}, false
	}
	forwarded := commit(s.backMessages(), event.Frontend, sent.At)
	f := Finding{
		Rule: "txn.ambiguous-commit", Session: s.number, PIDs: []int{s.opener()},
		Evidence: []int64{sent.Seq, signs[0].Seq}, Mend: mend("txn.ambiguous-commit"),
	}
	var done *event.Event
	if forwarded != nil {
		done = commit(s.backMessages(), event.Backend, forwarded.At)
	}
	switch {
	case done != nil:
		f.Evidence = append(f.Evidence, done.Seq)
		f.Message = "COMMIT was sent and PostgreSQL carried it out, but its answer never reached the client: the transaction is durable and the client cannot know"
	case s.back != nil && forwarded == nil:
		f.Message = "COMMIT was sent but never reached PostgreSQL: the transaction is lost and the client cannot know"
	default:
		f.Message = "COMMIT was sent and no answer came: whether the transaction is durable cannot be told from here"
	}
	slices.Sort(f.Evidence)
	return f, true
}

// lostCommitting reports whether no answer to that COMMIT reached the client: none
// came, or it came after the first sign of the end, or when its opener was gone.
func (h *history) lostCommitting(s *session, first event.Event, sent *event.Event) bool {
	answer := commit(s.messages(), event.Backend, sent.At)
	if answer != nil {
		opener := h.processes[s.opener()]
		return answer.At > first.At || opener != nil && opener.exitAt < answer.At
	}
	return slices.ContainsFunc(append(s.front.closings, first), func(c event.Event) bool { return c.Closing.State == event.Committing })
}

// leftByItself reports whether the client hung up of its own accord, so that
// nobody waits for an answer any more.
func (h *history) leftByItself(s *session, first event.Event) bool {
	return origin(first) == SideSubject && first.Closing.Cause == "" &&
		h.active("network.blackhole", first.At) == nil && h.stalled(s, first.At) == nil
}

// commit returns the last COMMIT at or after since: from the frontend the
// statement, from the backend its answer, if that was passed on. Nil for none.
func commit(messages []event.Event, from event.Side, since time.Duration) *event.Event {
	for i, m := range slices.Backward(messages) {
		if m.At < since || m.Message.From != from || m.Message.Verb != "COMMIT" {
			continue
		}
		if from == event.Backend && (m.Message.Dropped || m.Message.Type != "CommandComplete") {
			continue
		}
		return &messages[i]
	}
	return nil
}

// heldByDescendant finds a session that lives on although its opener is gone
// (family F06).
func (h *history) heldByDescendant(s *session) (Finding, bool) {
	opener := h.processes[s.opener()]
	if len(s.front.closings) > 0 || opener == nil || !opener.exited {
		return Finding{}, false
	}
	f := Finding{Rule: "fork.held-by-descendant", Session: s.number, Evidence: []int64{opener.exitSeq}, Mend: mend("fork.held-by-descendant")}
	for _, pid := range s.others() {
		if p := h.processes[pid]; p == nil || !p.exited {
			f.PIDs = append(f.PIDs, pid)
		}
	}
	if len(f.PIDs) == 0 {
		return Finding{}, false
	}
	f.Message = fmt.Sprintf("%s opened the session and %s; pids %v still hold its socket, so PostgreSQL keeps the session and its locks",
		h.name(opener.pid), opener.sayExit(), f.PIDs)
	return f, true
}

// suppressed finds acts that the guard kept from the server.
func (h *history) suppressed(s *session) []Finding {
	var out []Finding
	var guilty []int
	for _, c := range s.front.calls {
		if !c.Call.Blocked || slices.Contains(guilty, c.PID) {
			continue
		}
		guilty = append(guilty, c.PID)
		out = append(out, Finding{
			Rule: "fork.inherited-terminate", Session: s.number, PIDs: []int{c.PID}, Evidence: []int64{c.Seq}, Mend: mendFor("fork.inherited-terminate", h.software(s)),
			Message: fmt.Sprintf("%s, which had only inherited the session, would have ended it while its opener, pid %d, still held it; the guard kept that from PostgreSQL",
				h.name(c.PID), s.opener()),
		})
	}
	return out
}

func mend(id string) string {
	rule, _ := Lookup(id)
	return rule.Mend
}
