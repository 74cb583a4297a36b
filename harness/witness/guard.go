package witness

import (
	"slices"

	"deadwire/harness/event"
)

// Guard is a Decide that keeps an inheritor from ending a session: it suppresses
// Terminate, close_notify and shutdown of a process that did not open the session
// while the one that did still holds it. A connection that was handed over, its
// opener having let go, is nobody's but its new owner's and is left alone; so is
// every socket that did not come through a tap.
func Guard(q Question) Decision {
	if q.Session.IsZero() || !endsSession(q.Call) || !inherits(q) {
		return Proceed
	}
	return Suppress
}

// inherits reports whether the caller only inherited the session: another process
// opened it and still holds it.
func inherits(q Question) bool {
	return q.Opener != 0 && q.PID != q.Opener && slices.Contains(q.Call.Holders, q.Opener)
}

// saysGoodbye reports whether a send is, or may be, a Terminate or its last piece.
func saysGoodbye(c event.Call) bool {
	return c.Name == event.CallSend && (c.Type == terminate || mayEndTLS(c.Type, c.Bytes))
}

// endsSession reports whether a call ends the session it is made on, or, under
// TLS, has the length of one that does.
func endsSession(c event.Call) bool {
	switch {
	case c.Name == event.CallShutdown:
		return true
	case c.Name != event.CallSend:
		return false
	default:
		// Of one in pieces the rest has left already.
		return c.Type == terminate && c.Bytes >= terminateBytes || mayEndTLS(c.Type, c.Bytes)
	}
}

// mayEndTLS reports whether a send can be a Terminate or a close_notify under TLS.
func mayEndTLS(name string, total int) bool {
	switch total {
	case closeNotifyBytes, tlsTerminateBytes, tlsTerminateChaCha, tlsTerminateGCM:
		return name == tlsRecord
	default:
		return name == tlsAlert
	}
}
