package diagnose_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/harness/diagnose"
	"deadwire/harness/event"
)

// endingCase is a journal and its first ending, in the words that matter.
type endingCase struct {
	name      string
	journal   *journal
	rule      string
	actor     diagnose.ActorKind
	pid       int
	certainty diagnose.Certainty
	says      string
}

func TestEndings(t *testing.T) {
	t.Parallel()
	for _, test := range slices.Concat(sentTerminate(), holdersOnly(), shutDown(), processEnded(), lastHolderEnded(), serverEnded(), onTheWay()) {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			report := diagnose.Explain(test.journal.events)
			assert.Equal(t, len(report.Endings), 1)
			e := report.Endings[0]
			assert.Equal(t, e.Rule, test.rule, e.Message)
			assert.Equal(t, e.Actor.Kind, test.actor, e.Message)
			assert.Equal(t, e.Actor.PID, test.pid, e.Message)
			assert.Equal(t, e.Certainty, test.certainty, e.Message)
			assert.Assert(t, strings.Contains(e.Message, test.says), e.Message)
			assert.Assert(t, e.HoldersBefore != nil && e.HoldersAfter != nil)
		})
	}
}

func sentTerminate() []endingCase {
	return []endingCase{
		{
			"nobody else holds it", family().terminate(opener, opener).subjectEnds(event.Terminate),
			"close.ordinary", diagnose.Opener, opener, diagnose.Exact, "its opener, pid 10 (app serve), sent Terminate",
		},
		{
			"terminate, opener not seen", (&journal{}).open(1, 0).terminate(child, child).subjectEnds(event.Terminate),
			"unknown", diagnose.Unknown, child, diagnose.Exact, "who had opened the session was not seen",
		},
		{
			"terminate by another, holders not seen", family(child).terminate(child).subjectEnds(event.Terminate),
			"unknown", diagnose.Unknown, child, diagnose.Exact, "whether its opener, pid 10, still held it was not seen",
		},
		{
			"terminate by another, holders known from before", family(child).share(opener, child).terminate(child).subjectEnds(event.Terminate),
			"fork.inherited-terminate", diagnose.Inheritor, child, diagnose.Exact, "still held it",
		},
		{
			"two send it, the first one ended it",
			family(child, sibling).share(opener, child, sibling).
				terminate(sibling, opener, child, sibling).subjectEnds(event.Terminate).terminate(child, opener, child, sibling),
			"fork.inherited-terminate", diagnose.Inheritor, sibling, diagnose.Exact, "",
		},
		{
			"a call that came after the sign did not cause it",
			family(child).share(opener, child).subjectEnds(event.Terminate).terminate(opener, opener, child),
			"unknown", diagnose.Unknown, 0, diagnose.Inferred, "the sender was not observed",
		},
		{
			"a suppressed call did not cause it",
			blocked(family(child).share(opener, child).terminate(child, opener, child)).terminate(opener, opener).subjectEnds(event.Terminate),
			"close.ordinary", diagnose.Opener, opener, diagnose.Exact, "",
		},
	}
}

func holdersOnly() []endingCase {
	return []endingCase{
		{
			"holders only: the sole other let go",
			family(child).share(opener, child).subjectEnds(event.Terminate).share(opener),
			"unknown", diagnose.Unknown, 0, diagnose.Inferred, "the sender was not observed: pids [10 20]",
		},
		{
			"holders only: two let go, neither is named",
			family(child, sibling).share(opener, child, sibling).subjectEnds(event.Terminate).share(opener),
			"unknown", diagnose.Unknown, 0, diagnose.Inferred, "the sender was not observed: pids [10 20 21]",
		},
		{
			"holders only: nobody let go, though there was time to",
			family(child).share(opener, child).closing(front(1), event.Closing{From: event.Frontend, Manner: event.Terminate}).
				closing(front(1), event.Closing{From: event.Backend, Manner: event.FIN}).later(time.Second).
				closing(front(1), event.Closing{From: event.Frontend, Manner: event.FIN}),
			"fork.inherited-terminate", diagnose.Unknown, 0, diagnose.Inferred, "its opener, pid 10, held for longer than a driver takes to close it",
		},
		{
			"holders only: the last look was before the end", family(child).share(opener, child).share(opener).subjectEnds(event.Terminate),
			"unknown", diagnose.Unknown, 0, diagnose.Inferred, "the sender was not observed",
		},
		{
			"holders only: the socket was closed with it",
			family(child).share(opener, child).share(opener).
				closing(front(1), event.Closing{From: event.Frontend, Manner: event.Terminate}).
				closing(front(1), event.Closing{From: event.Frontend, Manner: event.FIN}).
				closing(front(1), event.Closing{From: event.Backend, Manner: event.FIN}),
			"close.ordinary", diagnose.Unknown, 0, diagnose.Inferred, "whoever sent it was the last holder",
		},
		{
			"holders only: used after it",
			family(child).share(opener, child).subjectEnds(event.Terminate).message(front(1), event.Message{From: event.Frontend, Type: "Query"}),
			"fork.inherited-terminate", diagnose.Unknown, 0, diagnose.Inferred, "went on being used",
		},
		{
			"holders only: used after its opener exited",
			family(child).share(opener, child).subjectEnds(event.Terminate).exited(opener, 0).
				message(front(1), event.Message{From: event.Frontend, Type: "Query"}),
			"fork.opener-left", diagnose.Unknown, 0, diagnose.Inferred, "used after its opener, pid 10, had exited",
		},
		{
			"holders only: never shared", family().subjectEnds(event.Terminate),
			"close.ordinary", diagnose.Unknown, 0, diagnose.Inferred, "nobody but its opener, pid 10, was seen to hold it",
		},
	}
}

func shutDown() []endingCase {
	return []endingCase{
		{
			"shutdown by the opener", family().call(opener, event.CallShutdown, "", opener).subjectEnds(event.FIN),
			"close.ordinary", diagnose.Opener, opener, diagnose.Exact, "shut the socket down without Terminate",
		},
		{
			"shutdown by an inheritor", family(child).call(child, event.CallShutdown, "", opener, child).subjectEnds(event.FIN),
			"fork.inherited-terminate", diagnose.Inheritor, child, diagnose.Exact, "shut its socket down while its opener, pid 10, still held it",
		},
		{
			"shutdown, opener not seen", (&journal{}).open(1, 0).call(child, event.CallShutdown, "", child).subjectEnds(event.FIN),
			"unknown", diagnose.Unknown, child, diagnose.Exact, "was not seen",
		},
	}
}

func processEnded() []endingCase {
	return []endingCase{
		{
			"its process was killed", family().subjectEnds(event.FIN).killed(opener),
			"process.died", diagnose.Kernel, opener, diagnose.Holders, "was killed by SIGKILL",
		},
		{
			"its process exited", family().call(opener, event.CallExit, "").subjectEnds(event.RST).exited(opener, 3),
			"process.died", diagnose.Kernel, opener, diagnose.Holders, "exited with code 3",
		},
		{
			"an exit whose calls nobody saw can be the consequence", family().subjectEnds(event.FIN).exited(opener, 1),
			"unknown", diagnose.Unknown, 0, diagnose.Inferred, "the cause or the consequence",
		},
		{
			"an exit in peace whose calls nobody saw", family().subjectEnds(event.FIN).exited(opener, 0),
			"process.died", diagnose.Kernel, 0, diagnose.Inferred, "about when pid 10 (app serve) exited with code 0",
		},
		{
			"somebody unseen held it on", family().killed(opener).later(1500 * time.Millisecond).subjectEnds(event.FIN),
			"unknown", diagnose.Unknown, 0, diagnose.Inferred, "",
		},
		{
			"its process exited much later", family().subjectEnds(event.FIN).later(time.Minute).exited(opener, 0),
			"unknown", diagnose.Unknown, 0, diagnose.Inferred, "no process was seen to exit",
		},
		{
			"it was closed and its process went on to exit", family().subjectEnds(event.FIN).call(opener, event.CallExit, "").exited(opener, 0),
			"unknown", diagnose.Unknown, 0, diagnose.Inferred, "no process was seen to exit",
		},
		{
			"a holder lives on", family(child).share(opener, child).subjectEnds(event.FIN).killed(opener),
			"unknown", diagnose.Unknown, 0, diagnose.Inferred, "",
		},
	}
}

func lastHolderEnded() []endingCase {
	return []endingCase{
		{
			"a descendant kept it", family(child).share(opener, child).killed(opener).later(time.Second).subjectEnds(event.FIN).exited(child, 0),
			"fork.held-by-descendant", diagnose.Kernel, child, diagnose.Holders,
			"its opener, pid 10 (app serve), was killed by SIGKILL 1001 ms before; pid 20 (app serve) still held the socket",
		},
		{
			"a child exits after the end, and the opener later still",
			family(child).share(opener, child).subjectEnds(event.FIN).exited(child, 0).killed(opener),
			"process.died", diagnose.Kernel, opener, diagnose.Holders, "was killed by SIGKILL",
		},
		{
			"its opener connects anew after the end, and exits later",
			family(child).share(opener, child).subjectEnds(event.FIN).
				add(event.Event{Kind: event.SessionOpened, Session: front(2), Opened: &event.Opened{Opener: opener}}).
				later(time.Second).exited(child, 0).exited(opener, 1),
			"unknown", diagnose.Unknown, 0, diagnose.Inferred, "no process was seen to exit",
		},
		{
			"it was handed over, and its last holder died",
			family(child).share(child).subjectEnds(event.FIN).killed(child).call(opener, event.CallExit, "").exited(opener, 0),
			"process.died", diagnose.Kernel, child, diagnose.Holders, "pid 20 (app serve) was killed by SIGKILL",
		},
		{
			"a child that still works after the end had let go of it",
			family(child).share(opener, child).execed(child).share(opener).killed(opener).subjectEnds(event.FIN).call(child, event.CallExit, "").exited(child, 1),
			"process.died", diagnose.Kernel, opener, diagnose.Holders, "was killed by SIGKILL",
		},
	}
}

func serverEnded() []endingCase {
	reset := event.Closing{From: event.Backend, Manner: event.RST, State: event.Startup}
	return []endingCase{
		{
			"the server went before it accepted", family().logged("database system is shut down").closing(back(1), reset),
			"backend.crash-restart", diagnose.Server, 0, diagnose.Inferred, "before it accepted this connection",
		},
		{
			"a reset at the start of a server that stays", family().closing(back(1), reset),
			"unknown", diagnose.Unknown, 0, diagnose.Inferred, "without a line in its log",
		},
		{
			"the server said a word that no rule knows", family().serverSays("XX000", event.InQuery),
			"unknown", diagnose.Server, 0, diagnose.Exact, "no rule covers this SQLSTATE yet",
		},
		{
			"a shutdown of the server", family().logged("received fast shutdown request").serverSays("57P01", event.Idle),
			"backend.admin-terminate", diagnose.Server, 0, diagnose.Exact, "after received fast shutdown request",
		},
		{
			"another backend crashed", family().serverSays("57P02", event.Idle),
			"backend.crash-restart", diagnose.Server, 0, diagnose.Exact, "because another backend crashed",
		},
		{
			"this backend was killed",
			family().closing(back(1), event.Closing{From: event.Backend, Manner: event.FIN}).logged("server process (PID 501) was terminated by signal 9: Killed"),
			"backend.crash-restart", diagnose.Server, 0, diagnose.Exact, "the server process of this session (backend 501) was killed",
		},
		{
			"the server was stopped at once",
			family().closing(back(1), event.Closing{From: event.Backend, Manner: event.FIN}).logged("received immediate shutdown request"),
			"backend.crash-restart", diagnose.Server, 0, diagnose.Exact, "stopped at once",
		},
		{
			"the server closed without a word", family().closing(back(1), event.Closing{From: event.Backend, Manner: event.FIN}),
			"unknown", diagnose.Unknown, 0, diagnose.Inferred, "without an error message",
		},
	}
}

func onTheWay() []endingCase {
	return []endingCase{
		{
			"nobody listened", family().closing(back(1), event.Closing{From: event.Backend, Manner: event.Refused, Text: "connection refused"}),
			"server.refused", diagnose.Server, 0, diagnose.Inferred, "nobody accepted the connection at the server's address: connection refused",
		},
		{
			"something on the way closed it", family().
				closing(front(1), event.Closing{From: event.Backend, Manner: event.FIN}).
				closing(back(1), event.Closing{From: event.Frontend, Manner: event.FIN}),
			"network.closed", diagnose.Unknown, 0, diagnose.Inferred, "neither the subject nor the server had closed",
		},
		{
			"something on the way reset it", family().
				closing(back(1), event.Closing{From: event.Frontend, Manner: event.RST}).
				closing(front(1), event.Closing{From: event.Backend, Manner: event.RST}),
			"network.reset", diagnose.Unknown, 0, diagnose.Inferred, "by RST",
		},
		{
			"our fault cut it", family().fault(event.FaultInjected, "f1", "network.cut").
				closing(front(1), event.Closing{From: event.Backend, Manner: event.RST, Cause: "f1"}),
			"network.reset", diagnose.Fault, 0, diagnose.Exact, "fault network.cut ended it by RST",
		},
		{
			"our fault spoke for the server", family().fault(event.FaultInjected, "f1", "network.cut").
				closing(front(1), event.Closing{From: event.Backend, Manner: event.Fatal, SQLState: "57P01", Cause: "f1"}),
			"backend.admin-terminate", diagnose.Fault, 0, diagnose.Exact, "answered in the server's place",
		},
		{
			"a healed fault is innocent", family().fault(event.FaultInjected, "f1", "network.down").fault(event.FaultHealed, "f1", "network.down").
				closing(front(1), event.Closing{From: event.Backend, Manner: event.FIN}),
			"network.closed", diagnose.Unknown, 0, diagnose.Inferred, "something between the two taps",
		},
		{
			"the client gave up", family().fault(event.FaultInjected, "f1", "network.blackhole").subjectEnds(event.RST),
			"network.blackhole", diagnose.Fault, 0, diagnose.Inferred, "gave up waiting",
		},
		{
			"an ordinary close in a black hole", family().fault(event.FaultInjected, "f1", "network.blackhole").
				terminate(opener, opener).subjectEnds(event.Terminate),
			"close.ordinary", diagnose.Opener, opener, diagnose.Exact, "",
		},
	}
}

// blocked marks the newest call as answered without being carried out.
func blocked(j *journal) *journal {
	j.events[len(j.events)-1].Call.Blocked = true
	return j
}

func TestLiveSessionHasNoEnding(t *testing.T) {
	t.Parallel()
	report := diagnose.Explain(family().events)
	assert.Equal(t, report.Sessions, 1)
	assert.Equal(t, len(report.Endings)+len(report.Findings)+len(report.Sharing), 0)
	assert.Equal(t, diagnose.Explain(nil).Sessions, 0)
}

func TestOnlyACleanExitIsAnExpectedDeath(t *testing.T) {
	t.Parallel()
	clean := diagnose.Explain(family().call(opener, event.CallExit, "").subjectEnds(event.FIN).exited(opener, 0).events)
	assert.Assert(t, clean.Endings[0].Expected)
	dirty := diagnose.Explain(family().call(opener, event.CallExit, "").subjectEnds(event.FIN).exited(opener, 1).events)
	assert.Assert(t, !dirty.Endings[0].Expected)
	killed := diagnose.Explain(family().subjectEnds(event.FIN).killed(opener).events)
	assert.Assert(t, !killed.Endings[0].Expected)
}

func TestActorIsDescribedByItsProcess(t *testing.T) {
	t.Parallel()
	e := diagnose.Explain(builtJournals()["inherited terminate"]()).Endings[0]
	assert.DeepEqual(t, e.Actor, diagnose.Actor{Kind: diagnose.Inheritor, PID: child, PPID: opener, Argv: []string{"/opt/app", "serve"}})
	assert.DeepEqual(t, e.HoldersBefore, []int{opener, child})
	assert.DeepEqual(t, e.HoldersAfter, []int{opener})
	assert.Equal(t, e.Opener.PID, opener)
	assert.Equal(t, e.Side, diagnose.SideSubject)
	assert.Equal(t, e.Manner, event.Terminate)
	assert.Equal(t, e.Role, "main")
	assert.Assert(t, strings.Contains(e.Mend, "psycopg"))
}

func TestCancelRequestsAreNoSessions(t *testing.T) {
	t.Parallel()
	j := family()
	j.add(event.Event{Kind: event.SessionOpened, Session: front(2), Opened: &event.Opened{Opener: opener}})
	j.message(front(2), event.Message{From: event.Frontend, Type: "CancelRequest"})
	j.closing(front(2), event.Closing{From: event.Backend, Manner: event.FIN, State: event.Startup})
	report := diagnose.Explain(j.events)
	assert.Equal(t, report.Sessions, 1)
	assert.Equal(t, len(report.Endings), 0)
}

// Two sessions whose connections overtook each other between the taps.
func TestViewsAreJoinedByTheBackendNotByNumber(t *testing.T) {
	t.Parallel()
	j := &journal{}
	for n := 1; n <= 2; n++ {
		j.add(event.Event{Kind: event.SessionOpened, Session: front(n), Opened: &event.Opened{Opener: opener}})
	}
	for n := 1; n <= 2; n++ {
		j.add(event.Event{Kind: event.SessionOpened, Session: back(n), Opened: &event.Opened{}})
	}
	j.name(front(1), 1).name(front(2), 2).name(back(1), 2).name(back(2), 1)
	j.closing(back(1), event.Closing{From: event.Backend, Manner: event.FIN})
	report := diagnose.Explain(j.events)
	assert.Equal(t, len(report.Endings), 1)
	assert.Equal(t, report.Endings[0].Session, 2)
	assert.Equal(t, report.Endings[0].Side, diagnose.SideServer)
}

func TestReusedPIDIsANewProcess(t *testing.T) {
	t.Parallel()
	j := &journal{}
	j.started(opener, 1).killed(opener).started(opener, 2).open(1, opener).subjectEnds(event.FIN)
	e := diagnose.Explain(j.events).Endings[0]
	assert.Equal(t, e.Rule, "unknown", "the second process with that pid lives: %s", e.Message)
}
