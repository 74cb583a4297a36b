package diagnose_test

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/harness/diagnose"
	"deadwire/harness/event"
)

// startupBytes is the length of a start-up packet.
const startupBytes = 84

func (j *journal) opened(id event.SessionID, by int) *journal {
	return j.add(event.Event{Kind: event.SessionOpened, Session: id, Opened: &event.Opened{Client: "127.0.0.1:1", Opener: by}})
}

func (j *journal) ended(id event.SessionID, toServer, toClient int64) *journal {
	return j.add(event.Event{Kind: event.SessionEnded, Session: id, Ended: &event.Ended{BytesToServer: toServer, BytesToClient: toClient}})
}

// leavesInStartup lets the subject's end of a session close before start-up is over.
func (j *journal) leavesInStartup(id event.SessionID) *journal {
	return j.closing(id, event.Closing{From: event.Frontend, Manner: event.FIN, State: event.Startup})
}

func byNumber(t *testing.T, report diagnose.Report, session int) diagnose.Ending {
	t.Helper()
	for _, e := range report.Endings {
		if e.Session == session {
			return e
		}
	}
	t.Fatalf("session %d has no ending: %v", session, report.Endings)
	return diagnose.Ending{}
}

// Two clients connect; the one that connected later reaches the second tap first,
// and the server refuses the other one.
func TestClientsWithoutAPIDAreJoinedByTheirTraffic(t *testing.T) {
	t.Parallel()
	j := (&journal{}).started(opener, 1).started(child, opener)
	j.opened(front(1), opener).opened(front(2), child).opened(back(1), 0).opened(back(2), 0)
	j.leavesInStartup(front(2)).ended(front(2), startupBytes+9, 0)
	j.leavesInStartup(back(1)).ended(back(1), startupBytes+9, 0)
	refusal := event.Closing{From: event.Backend, Manner: event.Fatal, State: event.Startup, SQLState: "53300", Text: "sorry, too many clients already"}
	j.closing(back(2), refusal).closing(front(1), refusal)
	j.ended(back(2), startupBytes, 100).ended(front(1), startupBytes, 100)
	j.killed(child)

	report := diagnose.Explain(j.events)
	assert.Equal(t, byNumber(t, report, 1).Rule, "capacity.exhausted")
	left := byNumber(t, report, 2)
	assert.Equal(t, left.Rule, "process.died", left.Message)
	assert.Equal(t, left.Actor.PID, child)
}

func TestClientsOfTheSameTrafficAreJoinedByTheirEnd(t *testing.T) {
	t.Parallel()
	j := (&journal{}).started(opener, 1).started(child, opener)
	j.opened(front(1), opener).opened(front(2), child).opened(back(1), 0).opened(back(2), 0)
	// Session 2, seen as the first by the second tap, is closed by the way between.
	j.closing(back(1), event.Closing{From: event.Frontend, Manner: event.RST, State: event.Startup})
	j.closing(front(2), event.Closing{From: event.Backend, Manner: event.RST, State: event.Startup})
	j.ended(back(1), startupBytes, 0).ended(front(2), startupBytes, 0)
	j.later(10 * time.Second).leavesInStartup(front(1)).leavesInStartup(back(2))
	j.ended(front(1), startupBytes, 0).ended(back(2), startupBytes, 0).exited(opener, 0)

	report := diagnose.Explain(j.events)
	assert.Equal(t, byNumber(t, report, 1).Rule, "process.died")
	cut := byNumber(t, report, 2)
	assert.Equal(t, cut.Rule, "network.reset", cut.Message)
}

// A client that died before it learned the pid, which the second tap knows already.
func TestAClientThatLeftBeforeItLearnedThePIDIsJoined(t *testing.T) {
	t.Parallel()
	j := (&journal{}).started(opener, 1).started(child, opener)
	j.opened(front(1), opener).opened(back(1), 0)
	j.opened(front(2), child).opened(back(2), 0)
	j.name(back(2), 2).name(front(2), 2).name(back(1), 1)
	j.leavesInStartup(front(1)).ended(front(1), startupBytes, 0)
	j.serverEndsBack(1).ended(back(1), startupBytes, 300).killed(opener)
	j.closing(front(2), event.Closing{From: event.Frontend, Manner: event.Terminate})

	report := diagnose.Explain(j.events)
	left := byNumber(t, report, 1)
	assert.Equal(t, left.Rule, "process.died", left.Message)
	assert.Equal(t, left.Actor.PID, opener)
	assert.Equal(t, byNumber(t, report, 2).Rule, "close.ordinary")
}

func (j *journal) serverEndsBack(n int) *journal {
	return j.closing(back(n), event.Closing{From: event.Backend, Manner: event.FIN})
}

// While the server is down two clients find nobody there; a third one, which the
// server turns away as it starts, has passed on as many bytes as they tried to.
func TestARefusedClientIsNotJoinedWithOneThatWasHeard(t *testing.T) {
	t.Parallel()
	j := (&journal{}).started(opener, 1)
	for n := 1; n <= 2; n++ {
		j.opened(front(n), opener).opened(back(n), 0)
		j.closing(back(n), event.Closing{From: event.Backend, Manner: event.Refused, State: event.Startup, Text: "connection refused"}).ended(back(n), 0, 0)
		j.closing(front(n), event.Closing{From: event.Backend, Manner: event.FIN, State: event.Startup})
		j.ended(front(n), startupBytes, 0)
	}
	j.opened(back(3), 0).closing(back(3), event.Closing{From: event.Backend, Manner: event.RST, State: event.Startup}).ended(back(3), startupBytes, 0)

	report := diagnose.Explain(j.events)
	for n := 1; n <= 2; n++ {
		e := byNumber(t, report, n)
		assert.Equal(t, e.Rule, "server.refused", e.Message)
		assert.Equal(t, e.Side, diagnose.SideServer)
	}
}

// The first client was refused by the way, so the only view behind it is the second's.
func TestARefusedClientHasNoSecondView(t *testing.T) {
	t.Parallel()
	j := (&journal{}).started(opener, 1)
	j.opened(front(1), opener).closing(front(1), event.Closing{From: event.Backend, Manner: event.Refused, State: event.Startup})
	j.opened(front(2), opener).opened(back(1), 0)
	j.closing(back(1), event.Closing{From: event.Backend, Manner: event.RST, State: event.Startup})
	j.closing(front(2), event.Closing{From: event.Backend, Manner: event.RST, State: event.Startup})
	j.logged("database system is shut down")

	report := diagnose.Explain(j.events)
	assert.Equal(t, byNumber(t, report, 2).Rule, "backend.crash-restart")
	assert.Equal(t, byNumber(t, report, 1).Side, diagnose.SideNetwork)
}

func TestAConnectionWithoutAWordIsOrdinary(t *testing.T) {
	t.Parallel()
	visit := func(sent int64) diagnose.Ending {
		j := (&journal{}).started(opener, 1).opened(front(1), opener).opened(back(1), 0)
		j.leavesInStartup(front(1)).leavesInStartup(back(1)).ended(front(1), sent, 0).ended(back(1), sent, 0)
		return byNumber(t, diagnose.Explain(j.events), 1)
	}
	e := visit(0)
	assert.Equal(t, e.Rule, "close.ordinary", e.Message)
	assert.Equal(t, e.Actor.PID, opener)
	assert.Assert(t, e.Expected)
	assert.Equal(t, visit(startupBytes).Rule, "unknown") // it asked for a session, and gave up
}
