package scenarios

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/faults"
	"deadwire/faults/fork"
	"deadwire/faults/network"
	"deadwire/harness/diagnose"
	"deadwire/harness/event"
	"deadwire/harness/report"
	"deadwire/harness/subject"
	"deadwire/harness/verdict"
	"deadwire/scenarios/oracle"
)

const (
	coordinator = 1 // sessions of the facts below
	worker      = 2
	guilty      = 31 // the process that did what the fault asked for
)

// injected returns a fault as an attempt holds it; err is why injecting it failed.
func injected(id string, f faults.Fault, err error) faultFact {
	return injection{step: FaultStep{Fault: f}, target: faults.Target{ID: id}, state: &injectionState{err: err}}.fact()
}

// facts are those of a run in which worker 31 sent Terminate over its
// coordinator's session: expected() describes it exactly.
func facts() result {
	return result{
		outcome: outcomeFails, exit: subject.Exit{Code: 1}, exact: true,
		events: []event.Event{
			{Kind: event.SessionNamed, Session: event.SessionID{Place: event.Front, N: coordinator}, Named: &event.Named{BackendPID: 501, ApplicationName: "conveyor/coordinator"}},
			{Kind: event.SessionNamed, Session: event.SessionID{Place: event.Front, N: worker}, Named: &event.Named{BackendPID: 502, ApplicationName: "conveyor/worker-1"}},
			{Kind: event.FaultBit, PID: guilty, Fault: &event.Fault{ID: "f1", Name: "fork"}},
			{Kind: event.SubjectOutput, Output: &event.Output{Stream: "stderr", Text: "conveyor: partition: unexpected EOF"}},
			{Kind: event.ServerLogged, PID: 501, Log: &event.Log{Severity: "LOG", Text: "disconnection: session time"}},
		},
		report: diagnose.Report{Endings: []diagnose.Ending{
			{
				Session: coordinator, Role: "coordinator", Rule: "fork.inherited-terminate", Manner: event.Terminate, State: event.Idle,
				Actor: diagnose.Actor{Kind: diagnose.Inheritor, PID: guilty}, Certainty: diagnose.Exact, Message: "it was closed",
			},
			{Session: worker, Role: "worker-1", Rule: "close.ordinary", Actor: diagnose.Actor{Kind: diagnose.Opener, PID: 32}, Expected: true},
		}},
		snapshot: oracle.Snapshot{Ledger: []oracle.Entry{{RunID: "r1", Status: "failed"}, {RunID: "r0", Status: "completed"}}},
		broken:   []diagnose.Finding{{Invariant: "coordinator-session-kept", Message: "the coordinator's session ended"}},
		faults:   []faultFact{injected("f1", fork.Fork{Do: "terminate"}, nil)},
	}
}

func expected() Expect {
	return Expect{
		Outcome: outcomeFails, Error: "unexpected EOF|broken pipe",
		Endings: Endings{{
			Rule: "fork.inherited-terminate", Session: "coordinator", Actor: "inheritor",
			Manner: event.Terminate, State: event.Idle, Certainty: "exact",
		}},
		Invariants: Invariants{"coordinator-session-kept": "broken"},
		ServerLog:  "silent", Ledger: map[string]int{"failed": 1, "running": 0},
	}
}

func verdictOf(e Expect, r result) (verdict.Verdict, string) {
	var out report.Case
	judge(e, r).fill(&out)
	return out.Verdict, out.Reason
}

func TestWhatIsExpectedPasses(t *testing.T) {
	t.Parallel()
	r := facts()
	got, reason := verdictOf(expected(), r)
	assert.Equal(t, got, verdict.Pass, reason)
	assert.Assert(t, r.report.Endings[0].Expected, "the ending is marked as expected")
}

// change is one thing that is otherwise than in facts and expected.
type change struct {
	name   string
	change func(*Expect, *result)
	want   verdict.Verdict
	says   string
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, test := range slices.Concat(changedEndings(), changedFindings(), changedServer()) {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e, r := expected(), facts()
			test.change(&e, &r)
			got, reason := verdictOf(e, r)
			assert.Equal(t, got, test.want, reason)
			assert.Assert(t, strings.Contains(reason, test.says), reason)
			again, _ := verdictOf(e, r)
			assert.Equal(t, again, got, "judging twice")
		})
	}
}

func changedEndings() []change {
	return []change{
		{"another outcome", func(e *Expect, _ *result) { e.Outcome = outcomeCompletes }, verdict.Fail, "the subject fails (exit code 1), expected: completes"},
		{"it hangs", func(_ *Expect, r *result) { r.outcome, r.limit = outcomeHangs, 5e9 }, verdict.Fail, "the subject did not end within 5s"},
		{"other words", func(e *Expect, _ *result) { e.Error = "out of memory" }, verdict.Fail, `does not match "out of memory"; its last words: "conveyor: partition: unexpected EOF"`},
		{"an unexpected ending", func(_ *Expect, r *result) {
			r.report.Endings[1].Rule, r.report.Endings[1].Expected, r.report.Endings[1].Message = "network.reset", false, "RST"
		}, verdict.Fail, "unexpected ending of session 2 (worker-1): network.reset: RST"},
		{"a missing ending", func(_ *Expect, r *result) { r.report.Endings = r.report.Endings[1:] }, verdict.Fail, "expected one ending fork.inherited-terminate of coordinator, seen 0"},
		{"endings none", func(e *Expect, _ *result) { e.Endings = nil }, verdict.Fail, "unexpected ending of session 1 (coordinator)"},
		{"another session's ending", func(_ *Expect, r *result) { r.report.Endings[0].Role = "slot" }, verdict.Fail, "unexpected ending of session 1 (slot)"},
		{"another manner", func(e *Expect, _ *result) { e.Endings[0].Manner = event.RST }, verdict.Fail, "seen 0"},
		{"another state", func(e *Expect, _ *result) { e.Endings[0].State = event.InQuery }, verdict.Fail, "seen 0"},
		{"another SQLSTATE", func(e *Expect, _ *result) { e.Endings[0].SQLState = "57P01" }, verdict.Fail, "seen 0"},
		{"another certainty", func(e *Expect, _ *result) { e.Endings[0].Certainty = "holders" }, verdict.Fail, "seen 0"},
		{"another actor", func(e *Expect, _ *result) { e.Endings[0].Actor = "kernel" }, verdict.Fail, "seen 0"},
		{"an unknown actor, although the exact witness was there", func(_ *Expect, r *result) {
			r.report.Endings[0].Actor = diagnose.Actor{Kind: diagnose.Unknown}
		}, verdict.Fail, "seen 0"},
		{"an unknown actor without the exact witness", func(e *Expect, r *result) {
			r.exact, r.report.Endings[0].Actor, e.Endings[0].Certainty = false, diagnose.Actor{Kind: diagnose.Unknown}, ""
		}, verdict.Pass, ""},
		{"a wrong actor without the exact witness", func(_ *Expect, r *result) {
			r.exact, r.report.Endings[0].Actor.Kind = false, diagnose.Opener
		}, verdict.Fail, "seen 0"},
		{"the wrong process is accused", func(_ *Expect, r *result) { r.report.Endings[0].Actor.PID = 99 }, verdict.Fail, "pid 99 is accused, but the act was done by [31]"},
	}
}

func changedFindings() []change {
	return []change{
		{"a finding that nobody expects", func(_ *Expect, r *result) {
			r.report.Findings = []diagnose.Finding{{Rule: "fork.shared-query", Session: coordinator, Message: "two ask"}}
		}, verdict.Fail, "unexpected finding fork.shared-query: two ask"},
		{"a finding that is expected", func(e *Expect, r *result) {
			r.report.Findings = []diagnose.Finding{{Rule: "fork.shared-query", Session: coordinator}}
			e.Findings = []FindingMatch{{Rule: "fork.shared-query", Session: "coordinator"}}
		}, verdict.Pass, ""},
		{"a finding on another session", func(e *Expect, r *result) {
			r.report.Findings = []diagnose.Finding{{Rule: "fork.shared-query", Session: worker}}
			e.Findings = []FindingMatch{{Rule: "fork.shared-query", Session: "coordinator"}}
		}, verdict.Fail, "expected one finding fork.shared-query of coordinator, seen 0"},
		{"a finding that does not come", func(e *Expect, _ *result) {
			e.Findings = []FindingMatch{{Rule: "txn.ambiguous-commit"}}
		}, verdict.Fail, "expected one finding txn.ambiguous-commit of any session, seen 0"},
		{"a promise is broken", func(_ *Expect, r *result) {
			r.broken = append(r.broken, diagnose.Finding{Invariant: "no-lock-left", Message: "a lock is left"})
		}, verdict.Fail, "a lock is left"},
		{"a promise is kept that should break", func(_ *Expect, r *result) { r.broken = nil }, verdict.Fail, "coordinator-session-kept was expected to be broken, and was kept"},
		{"a promise breaks that is named as kept", func(e *Expect, _ *result) {
			e.Invariants["coordinator-session-kept"] = "kept"
		}, verdict.Fail, "the coordinator's session ended"},
		{"another count in the ledger", func(e *Expect, _ *result) { e.Ledger["failed"] = 2 }, verdict.Fail, "the ledger has 1 rows FAILED, expected 2"},
		{"a row that should not be there", func(e *Expect, _ *result) { e.Ledger["completed"] = 0 }, verdict.Fail, "the ledger has 1 rows COMPLETED, expected 0"},
		{"what the ledger is not asked for", func(_ *Expect, r *result) {
			r.snapshot.Ledger = append(r.snapshot.Ledger, oracle.Entry{Status: "completed"})
		}, verdict.Pass, ""},
	}
}

func changedServer() []change {
	return []change{
		{"the server said something", func(_ *Expect, r *result) {
			r.events = append(r.events, event.Event{Kind: event.ServerLogged, PID: 501, Log: &event.Log{Severity: "FATAL", Text: "terminating"}})
		}, verdict.Fail, "the server's log is not silent: backend 501: FATAL: terminating"},
		{"the server said something about a stranger", func(_ *Expect, r *result) {
			r.events = append(r.events, event.Event{Kind: event.ServerLogged, PID: 999, Log: &event.Log{Severity: "FATAL", Text: "terminating"}})
		}, verdict.Pass, ""},
		{"the server may speak", func(e *Expect, r *result) {
			e.ServerLog = ""
			r.events = append(r.events, event.Event{Kind: event.ServerLogged, PID: 501, Log: &event.Log{Severity: "FATAL"}})
		}, verdict.Pass, ""},
		{"a step came out", func(_ *Expect, r *result) {
			r.events = append(r.events, event.Event{Kind: event.DatabaseFact, Step: &event.Step{Name: "locks free", Note: "as awaited"}})
		}, verdict.Pass, ""},
		{"a step did not come out", func(_ *Expect, r *result) {
			r.events = append(r.events, event.Event{Kind: event.DatabaseFact, Step: &event.Step{Name: "locks free", Note: "2 locks are held"}})
		}, verdict.Fail, "locks free: 2 locks are held"},
		{"the fault did not bite", func(_ *Expect, r *result) {
			r.faults = append(r.faults, injected("f2", network.Down{}, nil))
		}, verdict.Undetermined, "fault network.down did not bite: it was injected, but nothing shows that it acted"},
		{"the fault could not be injected", func(_ *Expect, r *result) {
			r.faults = append(r.faults, injected("f2", network.Down{}, errors.New("the link is gone")))
		}, verdict.Undetermined, "fault network.down did not bite: the link is gone"},
		{"the journal was full", func(_ *Expect, r *result) {
			r.events = append(r.events, event.Event{Kind: event.JournalFull})
		}, verdict.Undetermined, "the journal was full"},
		{"wrong and without a bite", func(e *Expect, r *result) {
			e.Outcome = outcomeKilled
			r.faults = append(r.faults, injected("f2", network.Down{}, nil))
		}, verdict.Fail, "expected: killed"},
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		count string
		fits  []int
	}{
		{"", []int{1}},
		{"one", []int{1}},
		{"some", []int{1, 2, 3}},
		{"any", []int{0, 1, 2, 3}},
	} {
		t.Run("count "+test.count, func(t *testing.T) {
			t.Parallel()
			for n := range 4 {
				e, r := expected(), facts()
				e.Endings = append(e.Endings, EndingMatch{Rule: "process.died", Session: "worker-*", Count: test.count})
				e.Findings = []FindingMatch{{Rule: "txn.ambiguous-commit", Count: test.count}}
				for range n {
					r.report.Endings = append(r.report.Endings, diagnose.Ending{Session: 9, Role: "worker-7", Rule: "process.died"})
					r.report.Findings = append(r.report.Findings, diagnose.Finding{Rule: "txn.ambiguous-commit", Session: worker})
				}
				got, reason := verdictOf(e, r)
				assert.Equal(t, got == verdict.Pass, slices.Contains(test.fits, n), "%d: %s", n, reason)
				if got != verdict.Pass {
					assert.Equal(t, strings.Count(reason, "seen "), 2, reason)
				}
			}
		})
	}
}

// Markers of the seam and log lines are not the subject's last words.
func TestLastWords(t *testing.T) {
	t.Parallel()
	said := func(stream, text string) event.Event {
		return event.Event{Kind: event.SubjectOutput, Output: &event.Output{Stream: stream, Text: text}}
	}
	r := result{events: []event.Event{
		said("stderr", "first"), said("stderr", "conveyor: the reason"), said("stderr", `{"level":"INFO"}`), said("stderr", "  "),
		said("stdout", "a result"), said("stderr", faults.MarkerPrefix+`{"id":"f1"}`),
	}}
	assert.DeepEqual(t, r.errorLines(), []string{"first", "conveyor: the reason"})
	assert.Equal(t, r.lastWords(), "conveyor: the reason")
	assert.Equal(t, result{}.lastWords(), "")
	r = result{events: []event.Event{
		printed("Traceback (most recent call last):"), printed("  File \"app.py\", line 3, in <module>"),
		printed("psycopg2.OperationalError: server closed the connection unexpectedly"),
		printed("\tThis probably means the server terminated abnormally"), printed("\tbefore or while processing the request."), printed(""),
	}}
	assert.Equal(t, r.lastWords(), "psycopg2.OperationalError: server closed the connection unexpectedly "+
		"This probably means the server terminated abnormally before or while processing the request.")
	r = result{events: []event.Event{printed(strings.Repeat("long ", 1000))}}
	assert.Equal(t, len(r.lastWords()), errorMax+len("…"))
	r = result{events: []event.Event{printed("  indented from the start")}}
	assert.Equal(t, r.lastWords(), "indented from the start")
}

func TestReportHoldsTheFacts(t *testing.T) {
	t.Parallel()
	r := facts()
	r.faults = append(r.faults, injected("f2", network.Down{}, nil))
	r.report.Findings = []diagnose.Finding{{Rule: "fork.shared-query"}}
	var out report.Case
	r.fill(&out)
	assert.Equal(t, string(out.Outcome), outcomeFails)
	assert.Equal(t, out.Error, "conveyor: partition: unexpected EOF")
	assert.Equal(t, len(out.Endings), 2)
	assert.Equal(t, len(out.Findings), 2, "rules and promises")
	assert.DeepEqual(t, out.Faults, []string{"fork"})
	r.outcome = outcomeCompletes
	var done report.Case
	r.fill(&done)
	assert.Equal(t, done.Error, "", "who completes has no error, whatever was printed")
}

func TestJudgeLocks(t *testing.T) {
	t.Parallel()
	ours, slot := oracle.Lock{PID: 501}, oracle.Lock{PID: 502}
	for _, test := range []struct {
		name, want string
		locks      []oracle.Lock
		says       string // "" for done
	}{
		{"free and awaited so", "free", nil, ""},
		{"not free yet", "free", []oracle.Lock{ours}, "1 locks are held"},
		{"only the coordinator's is left", "held", []oracle.Lock{ours}, ""},
		{"only the coordinator's are left, several of them", "held", []oracle.Lock{ours, ours}, ""},
		{"the slot's is still there", "held", []oracle.Lock{ours, slot}, "2 locks are held"},
		{"the coordinator's is gone", "held", []oracle.Lock{slot}, "the coordinator's lock is gone"},
		{"all are gone", "held", nil, "the coordinator's lock is gone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			says := said(t, judgeLocks(test.locks, 501, test.want))
			assert.Assert(t, strings.Contains(says, test.says) && (says == "") == (test.says == ""), says)
		})
	}
}

func TestEarly(t *testing.T) {
	t.Parallel()
	later := faults.Trigger{AfterMS: 1}
	for _, test := range []struct {
		name string
		step FaultStep
		want bool
	}{
		{"at once", FaultStep{Fault: network.Down{}}, true},
		{"on a trigger", FaultStep{Fault: network.Down{}, When: later}, false},
		{"inside the subject", FaultStep{Fault: fork.Fork{Do: "hold"}}, true},
		{"inside the subject, with a trigger", FaultStep{Fault: fork.Fork{Do: "hold"}, When: later}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.step.early(), test.want)
		})
	}
}

func printed(text string) event.Event {
	return event.Event{Kind: event.SubjectOutput, Output: &event.Output{Stream: "stderr", Text: text}}
}

func TestWhatWasSeenHelpsToMatch(t *testing.T) {
	t.Parallel()
	front := event.SessionID{Place: event.Front, N: 1}
	assert.Equal(t, seen(nil), "no session came through the tap")
	events := []event.Event{
		{Kind: event.SessionNamed, Session: front, Named: &event.Named{ApplicationName: "conveyor/worker-1"}},
		{Kind: event.SessionNamed, Session: front, Named: &event.Named{}},
		{Kind: event.SessionMessage, Session: front, Message: &event.Message{From: event.Frontend, Verb: "INSERT", Label: "conveyor:persist"}},
		{Kind: event.SessionMessage, Session: front, Message: &event.Message{From: event.Backend, Verb: "COMMIT"}},
	}
	assert.Equal(t, seen(events), "sessions seen: (without application_name), worker-1; statements near their ends: INSERT (conveyor:persist)")
}
