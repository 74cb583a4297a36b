package tap

import (
	"encoding/binary"
	"time"

	"deadwire/harness/event"
)

// owedError is an injected error that goes out before a later ReadyForQuery.
type owedError struct {
	after int // ReadyForQuery messages until then, itself included
	bytes []byte
}

// lastWords are an injected error that ends the session. Whoever writes to the
// frontend says them at the next boundary between messages.
type lastWords struct {
	bytes []byte
	then  Cut
	why   event.Closing
}

// syncMessage asks the server for its ReadyForQuery and nothing else.
func syncMessage() []byte { return []byte{'S', 0, 0, 0, 4} }

// inject answers the frontend with an error. It reports whether the direction goes on.
func (p *pump) inject(st step, do InjectError) bool {
	if p.s.isFinal(do) {
		p.decide(st, false)
		p.s.leave(newLastWords(do, st.rule.Cause))
		return p.flow.side == event.Frontend || p.sayLastWords()
	}
	message := errorResponse(do)
	if p.flow.side == event.Backend {
		p.decide(st, false)
		p.write(message)
		p.flow.skipping = true
		return true
	}
	p.injectLater(st, message)
	return true
}

// injectLater puts the error into the answers of the exchange that the message of
// the frontend belongs to, in the order in which the server would have sent it.
func (p *pump) injectLater(st step, message []byte) {
	switch {
	case !st.decide || st.msg.Type == "Sync":
		p.s.owe(message, 0)
		p.decide(st, true)
	case st.msg.Type == "Query" || st.msg.Type == "FunctionCall":
		p.s.owe(message, 0)
		p.decide(st, false)
		p.write(syncMessage())
	default:
		p.s.owe(message, 1)
		p.decide(st, false)
		p.flow.skipping = true
	}
}

func (s *Session) isFinal(do InjectError) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return isFatal(do.Severity) || do.Then != "" || !s.progress.ready
}

// owe promises an error for the last ReadyForQuery that is due, or one further on.
func (s *Session) owe(message []byte, further int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors = append(s.errors, owedError{after: s.progress.awaiting + further, bytes: message})
}

// nextError takes the error that is due. mu is held.
func (s *Session) nextError() []byte {
	message := s.errors[0].bytes
	s.errors = s.errors[1:]
	return message
}

func newLastWords(do InjectError, cause string) *lastWords {
	if do.Severity == "" {
		do.Severity = "FATAL"
	}
	if do.Then == "" {
		do.Then = CutFIN
	}
	why := event.Closing{From: event.Backend, Manner: event.Fatal, SQLState: do.SQLState, Text: do.Text, Cause: cause}
	return &lastWords{bytes: errorResponse(do), then: do.Then, why: why}
}

// leave hands last words to the relay of the server's direction and wakes it.
func (s *Session) leave(words *lastWords) {
	s.mu.Lock()
	s.injected = words
	s.mu.Unlock()
	_ = s.back.SetReadDeadline(time.Unix(1, 0)) // fails only on a closed leg: then there is nobody to tell
}

// sayLastWords ends the session if that was asked for and no message is half out.
// It reports whether the direction goes on.
func (p *pump) sayLastWords() bool {
	if p.flow.side != event.Backend {
		return true
	}
	p.s.mu.Lock()
	words := p.s.injected
	if words == nil || p.flow.dec.started() && p.flow.partly {
		p.s.mu.Unlock()
		return true
	}
	p.s.injected = nil
	p.s.closing(words.why)
	p.s.mu.Unlock()
	return p.say(words)
}

// say writes last words and cuts. A cut of both legs is recorded before: the
// client hangs up as soon as it has read them, and that is our doing.
func (p *pump) say(words *lastWords) bool {
	why := event.Closing{Cause: words.why.Cause}
	manner, both := map[Cut]event.Manner{CutFIN: event.FIN, CutRST: event.RST}[words.then]
	if !both {
		p.write(words.bytes)
		_ = p.s.cut(words.then, why) // a session that is gone already needs no cut
		return true
	}
	if p.s.claim(manner, why) {
		p.write(words.bytes)
		if words.then == CutFIN {
			part(p.dst)
		}
		_ = p.s.endLegs(manner) // likewise
	}
	return false
}

// errorResponse builds the message ("Error and Notice Message Fields" of the
// protocol document).
func errorResponse(do InjectError) []byte {
	severity := do.Severity
	if severity == "" {
		severity = "ERROR"
	}
	b := []byte{'E', 0, 0, 0, 0}
	for _, field := range []string{"S" + severity, "V" + severity, "C" + do.SQLState, "M" + do.Text} {
		b = append(append(b, field...), 0)
	}
	b = append(b, 0)
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-1))
	return b
}
