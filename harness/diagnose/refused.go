package diagnose

import "deadwire/harness/event"

// serverRefused is a connection that found nobody behind the taps.
func serverRefused() Rule {
	return Rule{
		ID:       "server.refused",
		Sentence: "Nobody accepted the connection at the server's own address: PostgreSQL is not running there, or does not listen there.",
		Tells:    "The tap next to the server could not connect, while no fault and no stop of the server explains it.",
		Mend:     "Check that the server runs and listens at that address and port; a client should retry with back-off, and give up with the address in its error.",
	}
}

// refused explains a connection that was never established. Only the tap next to
// the server can tell the server's refusal from the network's.
func refused(first event.Event, e *Ending) {
	e.Side = SideNetwork
	e.Message = "nobody accepted the connection behind the tap: " + clip(first.Closing.Text)
	if first.Session.Place == event.Back {
		e.Rule, e.Side, e.Actor = "server.refused", SideServer, Actor{Kind: Server}
		e.Message = "nobody accepted the connection at the server's address: " + clip(first.Closing.Text)
	}
}
