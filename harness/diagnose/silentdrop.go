package diagnose

import (
	"slices"
	"time"

	"deadwire/harness/event"
)

// silentDrop is family F12: an idle flow that something on the way has forgotten.
func silentDrop() Rule {
	return Rule{
		ID: "network.silent-drop", Family: "F12",
		Sentence: "Something on the way forgot the session while it was idle: no FIN, no RST, and what is sent later goes nowhere.",
		Tells:    "Silence that begins while nothing is outstanding; both sockets stay open, and the next request is never answered.",
		Mend: "Set TCP keepalives below the middlebox's idle limit (libpq: keepalives_idle), close pooled sessions that were idle for longer, " +
			"and give every call a deadline, so that a dead session is found in seconds and not in the kernel's two hours.",
	}
}

// droppedInSilence refines an ending by silence: it began while nothing was
// outstanding, so no request of the client's was lost by it.
func droppedInSilence(sign event.Event, e *Ending) {
	if sign.Closing.Manner != event.Silence || sign.Closing.State != event.Idle {
		return
	}
	e.Rule = "network.silent-drop"
	e.Message = "fault " + e.Actor.Fault + " forgot the session while it was idle: nothing that was sent afterwards got through"
}

// stalled returns the injection of a fault that held a message of this very
// session and was not healed yet at that time, or nil.
func (h *history) stalled(s *session, at time.Duration) *event.Event {
	fault := h.active("network.stall", at)
	if fault == nil {
		return nil
	}
	held := slices.ContainsFunc(h.events, func(e event.Event) bool {
		return e.Kind == event.FaultBit && e.Fault.ID == fault.Fault.ID && e.Session == s.front.id && e.At <= at
	})
	if !held {
		return nil
	}
	return fault
}
