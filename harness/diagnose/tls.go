package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"deadwire/harness/event"
)

// Types of sends under TLS, as the witness names them: by the first byte, which
// is all of a record that can be read.
const (
	typeTLSRecord = "TLSRecord"
	typeTLSAlert  = "TLSAlert"
)

// Lengths of encrypted records that end a session, with their header: a Terminate
// of five bytes and a close_notify of two, under TLS 1.3 with 16 bytes of tag and
// one of type (27, 24), under TLS 1.2 with ChaCha20 (26) and with AES-GCM, whose
// records carry 8 bytes of nonce as well (34; its alerts show their type).
// Measured: wire facts, section 6.
var (
	goodbyeBytes = []int{27, 26, 34}
	notifyBytes  = []int{24}
)

// saysGoodbye reports whether a send ends a session, or has the length of one
// that does where nothing more can be told.
func saysGoodbye(c *event.Call) bool {
	switch c.Type {
	case typeTerminate, typeTLSAlert:
		return true
	case typeTLSRecord:
		return slices.Contains(goodbyeBytes, c.Bytes) || slices.Contains(notifyBytes, c.Bytes)
	default:
		return false
	}
}

// encrypted reports whether the tap could not read the session.
func (s *session) encrypted() bool {
	return slices.ContainsFunc(s.front.messages, func(e event.Event) bool { return e.Message.Type == "SSLRequest" }) &&
		slices.ContainsFunc(s.front.messages, func(e event.Event) bool { return e.Message.Type == "TLS application_data" })
}

// byGoodbye recognises the end of a session that the tap could not read: by the
// lengths of the last records that a process sent before the first sign.
func (h *history) byGoodbye(s *session, signs []event.Event, e *Ending) bool {
	if !s.encrypted() {
		return false
	}
	call, record := s.goodbye(signs[0]), s.goodbyeOnWire(signs[0])
	switch {
	case call != nil:
		h.terminateSeen(s, call, e)
	case record != nil:
		e.Evidence = append(e.Evidence, record.Seq)
		h.terminateByHolders(s, *record, e)
	default:
		return false
	}
	e.Side, e.Manner, e.State = SideSubject, event.Terminate, ""
	e.Message += " (under TLS, told by the lengths of its last records)"
	return true
}

// goodbyeOnWire returns the record of a Terminate as the tap saw it: the first one
// of that length which a close_notify follows, whatever comes after the two, since
// others may go on; else the subject's last one, if the server answered with its own.
func (s *session) goodbyeOnWire(sign event.Event) *event.Event {
	var last *event.Event
	messages, hungUp := s.messages(), s.serverAlert()
	for i, e := range messages {
		m := e.Message
		switch {
		case m.From != event.Frontend:
		case isNotify(m):
			if last != nil {
				return last
			}
		case m.Type == "TLS application_data" && slices.Contains(goodbyeBytes, m.Length) && e.At <= sign.At && e.At <= hungUp:
			last = &messages[i]
		default:
			last = nil
		}
	}
	if hungUp == far {
		return nil
	}
	return last
}

// goodbye returns the send of a Terminate that led to sign: the last record of
// that length before the server hung up which the same process followed up with a
// close_notify, be it late; or the close_notify itself. A server that hung up after
// the only user's record of that length is answer enough.
func (s *session) goodbye(sign event.Event) *event.Event {
	var last, found *event.Event
	hungUp := s.serverAlert()
	for i := range s.front.calls {
		c := &s.front.calls[i]
		if c.Call.Name != event.CallSend || c.Call.Blocked {
			continue
		}
		early := (c.Seq < sign.Seq || c.At <= sign.At) && c.At <= hungUp
		switch {
		case notifies(c.Call) && last != nil && last.PID == c.PID:
			found, last = last, nil
		case notifies(c.Call) && early:
			found, last = c, nil
		case early && c.Call.Type == typeTLSRecord && slices.Contains(goodbyeBytes, c.Call.Bytes):
			last = c
		case early:
			last = nil
		}
	}
	if found == nil && hungUp != far && len(s.recordUsers()) < 2 {
		return last
	}
	return found
}

// loneRecord returns the send of a Terminate that the tap could read: the record of
// its length that was begun after the tap had read what came before it, if only one
// process sent such a one. A call is recorded before it is carried out, so one that
// was recorded after the sign is none.
func (s *session) loneRecord(sign event.Event) *event.Event {
	var since time.Duration
	for _, m := range s.front.messages {
		if m.Seq < sign.Seq && m.Message.From == event.Frontend && m.Message.Type != typeTerminate {
			since = max(since, m.At)
		}
	}
	var lone *event.Event
	for i := range s.front.calls {
		c := &s.front.calls[i]
		sent := c.Call.Name == event.CallSend && !c.Call.Blocked && c.Call.Type == typeTLSRecord && slices.Contains(goodbyeBytes, c.Call.Bytes)
		if !sent || c.Seq > sign.Seq || c.At < since {
			continue
		}
		if lone != nil && lone.PID != c.PID {
			return nil
		}
		lone = c
	}
	return lone
}

// notifies reports whether a send is a close_notify.
func notifies(c *event.Call) bool {
	return c.Type == typeTLSAlert || c.Type == typeTLSRecord && slices.Contains(notifyBytes, c.Bytes)
}

// isNotify reports whether a record on the wire is a close_notify: no message has
// two bytes of content.
func isNotify(m *event.Message) bool {
	return m.Type == "TLS alert" || m.Type == "TLS application_data" && slices.Contains(notifyBytes, m.Length)
}

// serverAlert returns when the server sent its alert, far when it did not.
func (s *session) serverAlert() time.Duration {
	for _, e := range s.messages() {
		if e.Message.From == event.Backend && isNotify(e.Message) {
			return e.At
		}
	}
	return far
}

// recordUsers returns the first record of each process that used an encrypted
// session, endings left out.
func (s *session) recordUsers() map[int]event.Event {
	first := map[int]event.Event{}
	for _, c := range s.front.calls {
		if c.Call.Name != event.CallSend || c.Call.Type != typeTLSRecord || saysGoodbye(c.Call) {
			continue
		}
		if _, seen := first[c.PID]; !seen {
			first[c.PID] = c
		}
	}
	return first
}

// bySharedTLS recognises family F02: the server hung up on a record, after two
// processes had sent records with one set of keys and counters.
func (h *history) bySharedTLS(s *session, signs []event.Event, e *Ending) bool {
	users := s.recordUsers()
	if len(users) < 2 {
		return h.byBadRecord(s, signs, e)
	}
	who, hungUp := s.refuser(signs)
	if hungUp == far {
		return false
	}
	call := s.lastRecord(hungUp)
	if call == nil {
		return false
	}
	pids := slices.Sorted(maps.Keys(users))
	e.Rule, e.Side, e.Certainty, e.State = "fork.shared-tls", SideServer, Exact, ""
	e.Actor = Actor{Kind: Inheritor, PID: call.PID}
	if call.PID == s.opener() {
		e.Actor.Kind = Opener
	}
	e.Evidence = append(e.Evidence, call.Seq)
	for _, first := range users {
		e.Evidence = append(e.Evidence, first.Seq)
	}
	e.Message = fmt.Sprintf("%s hung up on a record from %s: pids %v had encrypted with the same keys, each with counters of its own",
		who, h.name(call.PID), pids)
	for _, log := range h.logs {
		if isBadRecord(log.Log.Text) && near(log.At, signs[0].At, crashWindow) {
			e.Evidence = append(e.Evidence, log.Seq)
			e.Message += "; its log says «" + clip(log.Log.Text) + "»"
			break
		}
	}
	return true
}

// refuser returns who hung up on a record, and when; far if nobody did. A tap that
// terminates TLS is in the server's place.
func (s *session) refuser(signs []event.Event) (who string, at time.Duration) {
	for _, sign := range signs {
		if sign.Closing.Manner == event.Desync && isBadRecord(sign.Closing.Text) {
			return "the tap, in PostgreSQL's place,", sign.At
		}
	}
	at = s.serverAlert()
	if at == far && signs[0].Closing.From == event.Backend {
		at = signs[0].At
	}
	return "PostgreSQL", at
}

// byBadRecord recognises family F02 where the sends were not looked at: a record
// did not authenticate, and more than one process held the session.
func (h *history) byBadRecord(s *session, signs []event.Event, e *Ending) bool {
	others := s.others()
	if len(others) == 0 || !s.secured() {
		return false
	}
	said := ""
	for _, sign := range signs {
		if isBadRecord(sign.Closing.Text) {
			said, e.Side = "the tap: "+sign.Closing.Text, SideSubject
			e.Evidence = append(e.Evidence, sign.Seq)
			break
		}
	}
	for _, log := range h.logs {
		if said == "" && isBadRecord(log.Log.Text) && near(log.At, signs[0].At, crashWindow) && s.serverHungUpFirst(signs) {
			said, e.Side = "PostgreSQL's log: "+log.Log.Text, SideServer
			e.Evidence = append(e.Evidence, log.Seq)
		}
	}
	if said == "" {
		return false
	}
	e.Rule, e.Certainty, e.State, e.Actor = "fork.shared-tls", Inferred, "", Actor{Kind: Unknown}
	e.Message = fmt.Sprintf("a record did not authenticate («%s»): more than one process had encrypted with the same keys", clip(said)) + candidates(s.opener(), others)
	return true
}

// serverHungUpFirst reports whether the server sent an alert or closed before the
// subject did. Only then can its log speak of this session: of one that the tap
// could not read, the server process is not known.
func (s *session) serverHungUpFirst(signs []event.Event) bool {
	at := s.serverAlert()
	for _, sign := range signs {
		if sign.Closing.From == event.Frontend && sign.At < at {
			return false
		}
		if sign.Closing.From == event.Backend {
			return true
		}
	}
	return at != far
}

// secured reports whether TLS was spoken on the session.
func (s *session) secured() bool {
	return slices.ContainsFunc(s.front.messages, func(e event.Event) bool { return e.Message.Type == "SSLRequest" }) || s.encrypted()
}

// isBadRecord recognises the words of OpenSSL and of Go for a record that did
// not authenticate; the same in every language.
func isBadRecord(text string) bool { return strings.Contains(strings.ToLower(text), "bad record mac") }

func (s *session) lastRecord(at time.Duration) *event.Event {
	for i, c := range slices.Backward(s.front.calls) {
		if c.Call.Name == event.CallSend && c.Call.Type == typeTLSRecord && c.At <= at {
			return &s.front.calls[i]
		}
	}
	return nil
}
