package tap

import (
	"deadwire/harness/event"
)

// passage is what becomes of a start-up packet.
type passage uint8

const (
	forward passage = iota
	decline         // not forwarded; the tap itself answers N
	unknown         // no start-up packet at all
)

// startup takes in a packet from before the session speaks in messages, and says
// what becomes of it. mu is held.
func (s *Session) startup(d *decoder) (event.Message, passage) {
	m := event.Message{From: event.Frontend, Length: d.length}
	switch code := uint32At(d.body, 0); {
	case code == codeSSL:
		m.Type = "SSLRequest"
		if s.tap.cfg.TLS != TLSPassthrough {
			return m, decline
		}
		s.down.dec.framing = answer
	case code == codeGSSENC:
		m.Type = "GSSENCRequest"
		return m, decline
	case code == codeCancel:
		m.Type = "CancelRequest"
		s.cancels(d.body[4:])
		d.framing = raw // nothing may follow
	case code>>versionBits == majorThree:
		m.Type = "StartupMessage"
		s.named.Protocol = protocolName(code)
		s.readParameters(d.body[4:])
		d.framing = messages
	default:
		d.desync("no start-up packet has this code")
		return m, unknown
	}
	return m, forward
}

// readParameters takes the names out of a StartupMessage.
func (s *Session) readParameters(b []byte) {
	var habits habits
	for {
		name, rest, _ := cutString(b)
		value, rest, ok := cutString(rest)
		if !ok || len(name) == 0 {
			break
		}
		switch string(name) {
		case "user":
			s.named.User = string(value)
		case "database":
			s.named.Database = string(value)
		case "application_name":
			s.named.ApplicationName = string(value)
		default:
			habits.add(string(name), string(value))
		}
		b = rest
	}
	s.named.Driver = habits.driver()
	if s.named.Database == "" {
		s.named.Database = s.named.User // the server's own default
	}
}

// habits are the start-up parameters by which some drivers betray themselves, since
// no other one sends these, spelled so: found in the sources of pgjdbc, lib/pq and
// asyncpg. What a user sets as a parameter may add to them.
type habits struct {
	floatDigits, timeZone, dateStyle, lowerDateStyle, quotedEncoding bool
}

func (h *habits) add(name, value string) {
	switch name {
	case "extra_float_digits":
		h.floatDigits = true
	case "TimeZone":
		h.timeZone = true
	case "DateStyle":
		h.dateStyle = value == "ISO"
	case "datestyle":
		h.lowerDateStyle = value == "ISO, MDY"
	case "client_encoding":
		h.quotedEncoding = value == "'utf-8'"
	}
}

// driver names the one driver with these habits, "" when there is no telling.
func (h *habits) driver() string {
	switch {
	case h.dateStyle && h.timeZone:
		return "JDBC"
	case h.lowerDateStyle && h.floatDigits:
		return "lib/pq"
	case h.quotedEncoding:
		return "asyncpg"
	default:
		return ""
	}
}

// cancels records a CancelRequest for the session whose key it names. The event
// carries that session's id, or none when the key is not one that passed here.
func (s *Session) cancels(key []byte) {
	if len(key) < 8 {
		return
	}
	s.tap.cfg.Recorder.Record(event.Event{
		Kind:    event.SessionCancel,
		Session: s.tap.keys.owner(string(key)),
		Named:   &event.Named{BackendPID: int(int32(uint32At(key, 0)))},
	})
}

// answered takes in the server's answer to SSLRequest. mu is held.
func (s *Session) answered(d *decoder) {
	if d.typ == 'S' {
		s.up.dec.framing, d.framing = tlsUnits, tlsUnits
		return
	}
	d.framing = messages
}
