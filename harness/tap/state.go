package tap

import "deadwire/harness/event"

// progress follows where a session is, from the messages of both directions.
type progress struct {
	ready    bool   // the first ReadyForQuery came
	tx       string // of the last ReadyForQuery: I, T or E
	awaiting int    // ReadyForQuery messages still owed by the server
	extended bool   // extended-query messages since the last Sync
	commits  int    // COMMITs sent whose outcome is unknown
	copying  bool
}

func (p *progress) state() event.State {
	switch {
	case !p.ready:
		return event.Startup
	case p.commits > 0:
		return event.Committing
	case p.copying:
		return event.InCopy
	case p.awaiting > 0 || p.extended:
		return event.InQuery
	case p.tx == "T":
		return event.InTransaction
	case p.tx == "E":
		return event.Failed
	}
	return event.Idle
}

// apply takes one message in.
func (p *progress) apply(m *event.Message) {
	if m.From == event.Frontend {
		p.sent(m)
		return
	}
	p.answered(m)
}

func (p *progress) sent(m *event.Message) {
	switch m.Type {
	case "Query":
		p.awaiting++
		p.commit(m.Verb)
	case "FunctionCall":
		p.awaiting++
	case "Sync":
		p.awaiting++
		p.extended = false
	case "Execute":
		p.extended = true
		p.commit(m.Verb)
	case "Parse", "Bind", "Describe", "Close":
		p.extended = true
	}
}

func (p *progress) commit(verb string) {
	if (statement{verb: verb}).commits() {
		p.commits++
	}
}

func (p *progress) answered(m *event.Message) {
	switch m.Type {
	case "CopyInResponse", "CopyOutResponse", "CopyBothResponse":
		p.copying = true
	case "CommandComplete":
		p.copying = false
		// A failed transaction answers COMMIT with ROLLBACK.
		if p.commits > 0 && (m.Verb == "COMMIT" || m.Verb == "ROLLBACK") {
			p.commits--
		}
	case "ErrorResponse":
		p.failed(m)
	case "ReadyForQuery":
		p.copying = false
		p.tx = m.Tx
		p.awaiting = max(0, p.awaiting-1)
		if p.ready = true; p.awaiting == 0 {
			p.commits = 0
		}
	}
}

// failed takes an error in. After a FATAL there is no answer to wait for, but what
// a COMMIT under way did stays unknown.
func (p *progress) failed(m *event.Message) {
	p.copying = false
	if !isFatal(m.Severity) && p.awaiting <= 1 {
		p.commits = 0
	}
}

func isFatal(severity string) bool { return severity == "FATAL" || severity == "PANIC" }
