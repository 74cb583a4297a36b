package diagnose

import (
	"fmt"

	"deadwire/harness/event"
)

// clientGone is family F15: PostgreSQL works on for a client that is no more.
func clientGone() Rule {
	return Rule{
		ID: "backend.client-gone", Family: "F15",
		Sentence: "The client was gone, and nobody else held its socket, but PostgreSQL kept the session with its locks: a backend that works or waits does not look at its socket.",
		Tells:    "The opener has exited, its FIN has reached the server, and afterwards the server still counts the session's locks.",
		Mend:     "Set client_connection_check_interval (PostgreSQL 14 or later) and statement_timeout or lock_timeout; a supervisor that restarts must expect the old session's locks for that long.",
	}
}

// locksHeld is the fact that the server still counts the locks of the backend
// that the event names.
var locksHeld = event.Step{Name: "locks held", Note: "as awaited"}

// clientGone finds a session that the server was seen to keep, by a fact from the
// database, although its client had left and its FIN had arrived.
func (h *history) clientGone(s *session) (Finding, bool) {
	opener := h.processes[s.opener()]
	if opener == nil || !opener.exited || s.back == nil {
		return Finding{}, false
	}
	for _, fact := range h.events {
		if fact.Kind != event.DatabaseFact || fact.PID == 0 || fact.PID != s.front.backendPID() || *fact.Step != locksHeld {
			continue
		}
		left := farewell(s.back, fact)
		if left == nil || opener.exitAt > fact.At {
			continue
		}
		return Finding{
			Rule: "backend.client-gone", Session: s.number, PIDs: []int{opener.pid}, Mend: mend("backend.client-gone"),
			Message: fmt.Sprintf("%s, which opened the session, %s, and its FIN had reached PostgreSQL; backend %d still held its locks",
				h.name(opener.pid), opener.sayExit(), fact.PID),
			Evidence: []int64{min(opener.exitSeq, left.Seq), max(opener.exitSeq, left.Seq), fact.Seq},
		}, true
	}
	return Finding{}, false
}

// farewell returns the client's FIN or RST as the server's side saw it before the
// fact, or nil.
func farewell(back *view, fact event.Event) *event.Event {
	for i, c := range back.closings {
		if c.Closing.From == event.Frontend && c.At < fact.At && (c.Closing.Manner == event.FIN || c.Closing.Manner == event.RST) {
			return &back.closings[i]
		}
	}
	return nil
}
