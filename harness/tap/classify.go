package tap

import (
	"bytes"
	"fmt"

	"deadwire/harness/event"
)

// classify describes a complete frame, and remembers what later messages refer to.
// mu is held.
func (s *Session) classify(d *decoder) event.Message {
	m := event.Message{From: d.side, Length: d.length}
	switch {
	case d.framing == tlsUnits:
		m.Type = records[d.typ]
	case d.side == event.Frontend:
		m.Type = frontendKinds[d.typ].name
		s.classifyFrontend(d, &m)
	default:
		m.Type = backendKinds[d.typ].name
		s.classifyBackend(d, &m)
	}
	return m
}

func (s *Session) classifyFrontend(d *decoder, m *event.Message) {
	switch d.typ {
	case 'Q':
		s.describe(m, s.parseSQL(d.body))
	case 'P':
		name, sql, _ := cutString(d.body)
		stmt := s.parseSQL(sql)
		s.stmts.set(name, stmt)
		s.describe(m, stmt)
	case 'B':
		portal, rest, _ := cutString(d.body)
		name, _, _ := cutString(rest)
		stmt := s.stmts.get(name)
		s.portals.set(portal, stmt)
		s.describe(m, stmt)
	case 'E':
		portal, _, _ := cutString(d.body)
		s.describe(m, s.portals.get(portal))
	case 'D', 'C':
		s.classifyNamed(d, m)
	case 'p':
		m.Length = 0 // it would tell the length of a password
	}
}

// classifyNamed describes Describe and Close, which name a statement or a portal.
func (s *Session) classifyNamed(d *decoder, m *event.Message) {
	if len(d.body) == 0 {
		return
	}
	set := &s.portals
	if d.body[0] == 'S' {
		set = &s.stmts
	}
	name, _, _ := cutString(d.body[1:])
	s.describe(m, set.get(name))
	if d.typ == 'C' {
		set.remove(name)
	}
}

func (s *Session) describe(m *event.Message, stmt statement) { m.Verb, m.Label = stmt.verb, stmt.label }

// parseSQL reads what is kept of a statement, and forgets the prepared statements
// that it drops.
func (s *Session) parseSQL(sql []byte) statement {
	verb, label, rest := scan(sql)
	if verb == "DEALLOCATE" || verb == "DISCARD" {
		all := bytes.TrimSpace(rest)
		if len(all) >= 3 && bytes.EqualFold(all[:3], []byte("all")) {
			s.stmts.clear()
		}
	}
	return statement{verb: verb, label: s.labels.intern(label)}
}

func (s *Session) classifyBackend(d *decoder, m *event.Message) {
	switch d.typ {
	case 'R':
		if name := authentications[uint32At(d.body, 0)]; name != "" {
			m.Type = name
		}
	case 'Z':
		m.Tx = txOf(d.body)
	case 'C':
		m.Verb, _, _ = scan(d.body)
	case 'E':
		m.Severity, m.SQLState, _ = errorFields(d.body)
	}
}

func txOf(body []byte) string {
	if len(body) == 1 {
		switch body[0] {
		case 'I':
			return "I"
		case 'T':
			return "T"
		case 'E':
			return "E"
		}
	}
	return ""
}

// severities are the words of ErrorResponse field V, which is never translated.
var severities = map[string]string{"ERROR": "ERROR", "FATAL": "FATAL", "PANIC": "PANIC"}

// errorFields reads severity, SQLSTATE and text of an ErrorResponse. Servers before
// 9.6 have no field V; S may be translated, and then severity stays empty.
func errorFields(body []byte) (severity, sqlstate string, text []byte) {
	for len(body) > 1 {
		value, rest, ok := cutString(body[1:])
		switch body[0] {
		case 'V':
			severity = severities[string(value)]
		case 'S':
			if severity == "" {
				severity = severities[string(value)]
			}
		case 'C':
			sqlstate = asSQLState(value)
		case 'M':
			text = value
		}
		if !ok {
			break
		}
		body = rest
	}
	return severity, sqlstate, text
}

func asSQLState(b []byte) string {
	if len(b) != 5 {
		return ""
	}
	return string(b)
}

// settle draws the consequences of a message that counts: the state, the session's
// name, and the ending that the message itself announces, if any. mu is held.
func (s *Session) settle(d *decoder, m *event.Message) (ending event.Closing, ends bool) {
	ending, ends = s.announces(d, m)
	switch m.Type {
	case "BackendKeyData":
		s.settleKey(d.body)
	case "ParameterStatus":
		s.settleParameter(d.body)
	case "NegotiateProtocolVersion":
		s.named.Protocol = protocolName(uint32At(d.body, 0))
	case "ReadyForQuery":
		s.settleReady(m)
	}
	s.sasl.follow(m)
	s.progress.apply(m)
	return ending, ends
}

// announces reports the ending that a message says is coming. mu is held.
func (s *Session) announces(d *decoder, m *event.Message) (ending event.Closing, ends bool) {
	switch {
	case m.Type == "Terminate":
		return event.Closing{From: event.Frontend, Manner: event.Terminate, State: s.progress.state()}, true
	case m.Type == "ErrorResponse" && isFatal(m.Severity):
		return s.fatalEnding(d, m), true
	}
	return event.Closing{}, false
}

func (s *Session) settleReady(m *event.Message) {
	if !s.progress.ready {
		named := s.named
		s.record(event.Event{Kind: event.SessionNamed, Named: &named})
	}
	if m.Tx == "I" {
		s.portals.clear() // portals end with their transaction
	}
}

func (s *Session) fatalEnding(d *decoder, m *event.Message) event.Closing {
	_, _, text := errorFields(d.body)
	return event.Closing{
		From: event.Backend, Manner: event.Fatal, State: s.progress.state(),
		SQLState: m.SQLState, Text: string(text) + s.bindingRefused(m.SQLState),
	}
}

func (s *Session) settleKey(body []byte) {
	if len(body) < 8 {
		return
	}
	s.named.BackendPID = int(int32(uint32At(body, 0)))
	s.key = string(body)
	s.tap.keys.learn(s.key, s.id)
}

func (s *Session) settleParameter(body []byte) {
	name, rest, _ := cutString(body)
	value, _, ok := cutString(rest)
	if ok && string(name) == "application_name" && string(value) != s.named.ApplicationName {
		s.named.ApplicationName = string(value)
	}
}

func protocolName(version uint32) string {
	return fmt.Sprintf("%d.%d", version>>versionBits, version&(1<<versionBits-1))
}
