package faultstest_test

import (
	"errors"
	"strings"
	"syscall"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/faults"
	"deadwire/faults/faultstest"
	"deadwire/faults/network"
	"deadwire/harness/event"
)

// much asks for an answer of so many bytes and checks that it comes whole.
func much(s *stage, bytes int) {
	s.T.Helper()
	text, err := s.Query(s.Client(), faultstest.Patience, "select repeat('x', "+itoa(bytes)+")")
	assert.NilError(s.T, err)
	assert.Equal(s.T, len(text), bytes)
}

func linkPlays() []faultstest.Play {
	session := (*stage).Session
	return []faultstest.Play{
		{Fault: network.Latency{MS: 40, JitterMS: 10}, Before: session, After: answers, Meet: func(s *stage) {
			takes(s, 2*30*time.Millisecond, func() { answers(s) })
		}},
		{Fault: network.Bandwidth{KBs: 64}, Before: session, After: answers, Meet: func(s *stage) {
			takes(s, 200*time.Millisecond, func() { much(s, 48<<10) })
		}},
		{Fault: network.Slicer{Bytes: 512, DelayUS: 10_000}, Before: session, After: answers, Meet: func(s *stage) {
			takes(s, 20*time.Millisecond, func() { much(s, 4<<10) }) // five pieces or more, with pauses between them
		}},
		{Fault: network.SlowClose{MS: 200}, Before: session, Meet: func(s *stage) {
			assert.NilError(s.T, s.Client().Close(s.Ctx))
			served := s.Await("the server's FIN", func(e event.Event) bool {
				return e.Kind == event.SessionClosing && e.Session.Place == event.Back && e.Closing.From == event.Backend
			})
			told := s.Await("the subject's end", func(e event.Event) bool { return e.Kind == event.SessionEnded && e.Session.Place == event.Front })
			assert.Assert(s.T, told.At-served.At >= 150*time.Millisecond, "after %s", told.At-served.At)
		}},
		{Fault: network.LimitData{Bytes: 4 << 10}, Before: session, Meet: func(s *stage) {
			_, err := s.Query(s.Client(), faultstest.Patience, "select repeat('x', 100000)")
			assert.ErrorContains(s.T, err, "unexpected EOF")
		}},
		{Fault: network.Blackhole{}, Before: session, Meet: hearsNothing},
		{Fault: network.Down{}, Before: session, Meet: func(s *stage) {
			loses(s)
			_, err := s.Dial(faultstest.Patience)
			assert.Assert(s.T, err != nil)
		}},
	}
}

func livePlays() []faultstest.Play {
	session := (*stage).Session
	return []faultstest.Play{
		{Fault: network.Refuse{}, Before: session, After: answers, Meet: func(s *stage) {
			_, err := s.Dial(faultstest.Patience)
			assert.Assert(s.T, errors.Is(err, syscall.ECONNREFUSED), "%v", err)
			answers(s) // the live session goes on
		}},
		{Fault: network.Reset{Session: "client"}, Before: session, Meet: func(s *stage) { loses(s) }},
		{Fault: network.Reset{Session: "client", Manner: "blackhole"}, Before: session, Meet: hearsNothing},
		{Fault: network.HalfClose{Towards: "subject"}, Before: session, Meet: func(s *stage) {
			loses(s)
		}},
		{Fault: network.HalfClose{Towards: "server"}, Before: session, Meet: func(s *stage) {
			s.AwaitBackends(0) // the server takes the FIN for the client's
			loses(s)
		}},
		{Fault: network.HalfClose{Towards: "subject", At: query("HALFWAY")}, Before: session, Meet: func(s *stage) {
			_, err := s.Query(s.Client(), faultstest.Patience, "/* halfway */ select 'x'")
			assert.Assert(s.T, err != nil && sqlstate(err) == "", "%v", err)
		}},
		{Fault: network.IdleCut{AfterMS: 30}, Before: session, Meet: func(s *stage) {
			s.AwaitBite()
			hearsNothing(s)
		}},
	}
}

// query matches a statement of the client's by the words of its leading comment.
func query(label string) faults.MessageMatch {
	return faults.MessageMatch{Session: "client", From: event.Frontend, Type: "Query", Label: strings.ToLower(label)}
}

func messagePlays() []faultstest.Play {
	session := (*stage).Session
	commit := faults.MessageMatch{Session: "client", From: event.Frontend, Verb: "COMMIT"}
	return []faultstest.Play{
		{Fault: network.Cut{Manner: "fin", At: commit}, Before: session, Meet: func(s *stage) {
			_, err := s.Client().Exec(s.Ctx, "begin")
			assert.NilError(s.T, err)
			_, err = s.Client().Exec(s.Ctx, "commit")
			assert.Assert(s.T, err != nil && sqlstate(err) == "", "%v", err)
			s.AwaitBackends(0)
		}},
		{Fault: network.Error{At: query("refused"), SQLState: "40001"}, Before: session, After: answers, Meet: func(s *stage) {
			_, err := s.Query(s.Client(), faultstest.Patience, "/* refused */ select 'x'")
			assert.Equal(s.T, sqlstate(err), "40001")
			answers(s) // the session is usable
		}},
		{Fault: network.Error{At: query("refused"), SQLState: "57P01", Severity: "FATAL"}, Before: session, Meet: func(s *stage) {
			_, err := s.Query(s.Client(), faultstest.Patience, "/* refused */ select 'x'")
			assert.Equal(s.T, sqlstate(err), "57P01")
			loses(s)
		}},
		{Fault: network.Stall{At: query("held")}, Before: session, Meet: func(s *stage) {
			_, err := s.Query(s.Client(), soon, "/* held */ select 'x'")
			assert.Assert(s.T, err != nil, "it was answered")
			assert.Equal(s.T, s.Backends(), 1)
		}},
		{Fault: network.Stall{At: query("held"), ForMS: 100}, Before: session, After: answers, Meet: func(s *stage) {
			takes(s, 100*time.Millisecond, func() {
				_, err := s.Query(s.Client(), faultstest.Patience, "/* held */ select 'x'")
				assert.NilError(s.T, err) // late, and whole
			})
		}},
	}
}
