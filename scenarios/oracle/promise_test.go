package oracle_test

import (
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/harness/diagnose"
	"deadwire/harness/event"
	"deadwire/scenarios/oracle"
)

// whole is what a healthy run of two cards and one worker leaves: every promise
// is kept. Tests break one thing at a time.
func whole() oracle.Input {
	return oracle.Input{
		Snapshot: oracle.Snapshot{
			Cards: []oracle.Card{
				{Identifier: "a", Hashed: true, Status: "unresolved"},
				{Identifier: "b", Hashed: true, Status: "resolved"},
				{Identifier: "damaged", Status: "unresolved"},
			},
			Evidence: []oracle.Evidence{
				{Card: "a", Hash: 1, RunID: "r1", Digest: "x"},
				{Card: "b", Hash: 2, RunID: "r1", Digest: "y"},
			},
			Votes: []oracle.Vote{
				{Card: "a", Printing: "p1", Agent: "ocr-v1", Source: "ocr", RunID: "r1"},
				{Card: "b", NoMatch: true, Agent: "deduce-v1", Source: "deduction", RunID: "r1"},
				{Card: "b", Printing: "p2", Agent: "somebody", Source: "user"},
			},
			Scans:  []oracle.Scan{{Card: "damaged", Agent: "fetch", Reason: "no hash", RunID: "r1"}},
			Ledger: []oracle.Entry{{RunID: "r1", Status: "completed", Finished: true, Elapsed: true}},
		},
		Report: diagnose.Report{Endings: []diagnose.Ending{
			{Session: 1, Role: "coordinator", Rule: "close.ordinary"},
			{Session: 2, Role: "worker-1", Rule: "close.ordinary"},
		}},
		Events: []event.Event{
			opened(1, "coordinator"), opened(9, "slot"), opened(2, "worker-1"), closed(9), closed(2), closed(1),
		},
		Completed: true,
		Workers:   1,
	}
}

func session(n int) event.SessionID { return event.SessionID{Place: event.Front, N: n} }

func opened(n int, role string) event.Event {
	return event.Event{Kind: event.SessionNamed, Session: session(n), Named: &event.Named{ApplicationName: "conveyor/" + role}}
}

func closed(n int) event.Event {
	return event.Event{Kind: event.SessionClosing, Session: session(n), Closing: &event.Closing{Manner: event.Terminate}}
}

func TestHealthyRunKeepsEveryPromise(t *testing.T) {
	t.Parallel()
	assert.Equal(t, len(oracle.Judge(whole())), 0, "%+v", oracle.Judge(whole()))
	assert.Equal(t, len(oracle.Judge(oracle.Input{})), 0, "a run that did nothing broke nothing")
}

type breach struct {
	name    string
	breach  func(*oracle.Input)
	promise string
	says    string
}

// Each breach is judged by all promises: it must break its own and no other.
func TestEachBreachBreaksItsOwnPromise(t *testing.T) {
	t.Parallel()
	for _, test := range slices.Concat(breachesOfRecords(), breachesAtRest()) {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			in := whole()
			test.breach(&in)
			findings := oracle.Judge(in)
			assert.Equal(t, len(findings), 1, "%+v", findings)
			assert.Equal(t, findings[0].Invariant, test.promise)
			assert.Assert(t, strings.Contains(findings[0].Message, test.says), findings[0].Message)
		})
	}
}

func breachesOfRecords() []breach {
	return []breach{
		{"running although it ended in order", func(in *oracle.Input) {
			in.Snapshot.Ledger[0] = oracle.Entry{RunID: "r2", Status: "running"}
		}, "ledger-truthful", "r2 still says RUNNING"},
		{"completed without an end", func(in *oracle.Input) { in.Snapshot.Ledger[0].Finished = false }, "ledger-truthful", "r1 is COMPLETED without end or counters"},
		{"completed without counters", func(in *oracle.Input) { in.Snapshot.Ledger[0].Elapsed = false }, "ledger-truthful", "r1 is COMPLETED without"},
		{"failed without a reason", func(in *oracle.Input) {
			in.Snapshot.Ledger[0] = oracle.Entry{RunID: "r1", Status: "failed", Finished: true}
		}, "ledger-truthful", "r1 is FAILED without end or reason"},
		{"the coordinator's session was ended", func(in *oracle.Input) {
			in.Report.Endings[0].Rule = "fork.inherited-terminate"
		}, "coordinator-session-kept", "session 1 ended by fork.inherited-terminate"},
		{"the coordinator closed before a worker came", func(in *oracle.Input) {
			in.Events = []event.Event{opened(1, "coordinator"), opened(9, "slot"), closed(9), closed(1), opened(2, "worker-1"), closed(2)}
		}, "coordinator-session-kept", "session 1 was closed before the workers' sessions"},
		{"two rows of evidence for one content", func(in *oracle.Input) {
			in.Snapshot.Evidence = append(in.Snapshot.Evidence, in.Snapshot.Evidence[0])
		}, "evidence-unique", "two rows for a/1"},
		{"evidence for a card without a hash", func(in *oracle.Input) {
			in.Snapshot.Evidence = append(in.Snapshot.Evidence, oracle.Evidence{Card: "damaged", RunID: "r1"})
		}, "evidence-unique", "without a hash: damaged"},
		{"an agent votes twice", func(in *oracle.Input) {
			in.Snapshot.Votes = append(in.Snapshot.Votes, oracle.Vote{Card: "a", Printing: "p9", Agent: "ocr-v1", Source: "ocr", RunID: "r1"})
		}, "votes-unique", "two votes on a by ocr-v1"},
		{"a vote for a printing and for none", func(in *oracle.Input) { in.Snapshot.Votes[0].NoMatch = true }, "votes-unique", "both or neither"},
		{"a vote for nothing", func(in *oracle.Input) { in.Snapshot.Votes[0].Printing = "" }, "votes-unique", "both or neither"},
		{"a machine votes on a card that it never saw", func(in *oracle.Input) {
			in.Snapshot.Votes = append(in.Snapshot.Votes, oracle.Vote{Card: "damaged", Printing: "p1", Agent: "ocr-v1", Source: "ocr", RunID: "r1"})
		}, "votes-on-evidence", "ocr-v1 voted on damaged, which has no evidence"},
		{"evidence without a run", func(in *oracle.Input) { in.Snapshot.Evidence[1].RunID = "" }, "run-named", "evidence of b"},
		{"a machine's vote without a run", func(in *oracle.Input) { in.Snapshot.Votes[1].RunID = "" }, "run-named", "vote on b"},
		{"a scan without a run", func(in *oracle.Input) { in.Snapshot.Scans[0].RunID = "" }, "run-named", "scan of damaged"},
		{"a vote vanished", func(in *oracle.Input) {
			in.Earlier = &oracle.Snapshot{Votes: []oracle.Vote{{Card: "a", Printing: "p3", Agent: "ocr-v2", Source: "ocr", RunID: "r0"}}}
		}, "votes-kept", "the vote on a by ocr-v2 is gone"},
		{"a vote was written twice", func(in *oracle.Input) {
			in.Earlier = &oracle.Snapshot{Votes: []oracle.Vote{{Card: "a", Printing: "p1", Agent: "ocr-v1", Source: "ocr", RunID: "r0"}}}
		}, "votes-kept", "the vote on a by ocr-v1 was written again by r1, just as it was"},
		{"a status without a person", func(in *oracle.Input) { in.Snapshot.Cards[0].Status = "resolved" }, "machines-never-resolve", "a is resolved"},
		{"a card was forgotten", func(in *oracle.Input) {
			in.Snapshot.Cards = append(in.Snapshot.Cards, oracle.Card{Identifier: "c", Hashed: true, Status: "unresolved"})
		}, "nothing-lost", "c has neither evidence nor a named skip"},
	}
}

func breachesAtRest() []breach {
	return []breach{
		{"too many sessions at once", func(in *oracle.Input) {
			for n := 10; n < 14; n++ {
				in.Events = append(in.Events, opened(n, "stray"))
			}
			in.Events = append(in.Events, opened(14, "stray"))
		}, "sessions-bounded", "5 sessions were open at once, the bound is 4"},
		{"a slot without a session of its own", func(in *oracle.Input) {
			in.Snapshot.Ledger = append(in.Snapshot.Ledger, oracle.Entry{RunID: "r2", Status: "completed", Finished: true, Elapsed: true})
		}, "slot-apart", "2 batches were begun with 1 sessions for slots"},
		{"a session is left", func(in *oracle.Input) {
			in.Snapshot.Sessions = []oracle.Session{{PID: 7, ApplicationName: "conveyor/slot", State: "idle"}}
		}, "no-session-left", "backend 7 (conveyor/slot, idle)"},
		{"a lock is left", func(in *oracle.Input) {
			in.Snapshot.Locks = []oracle.Lock{{PID: 7, Class: 0xc0, Key: 3}}
		}, "no-lock-left", "backend 7 holds 0xc0/3"},
		{"processes are left", func(in *oracle.Input) { in.ProcessesLeft = []int{9, 8} }, "no-process-left", "pid 8; pid 9"},
	}
}

type harmless struct {
	name   string
	change func(*oracle.Input)
}

func TestWhatIsNoBreach(t *testing.T) {
	t.Parallel()
	for _, test := range slices.Concat(harmlessRecords(), harmlessSessions()) {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			in := whole()
			test.change(&in)
			assert.Equal(t, len(oracle.Judge(in)), 0, "%+v", oracle.Judge(in))
		})
	}
}

func harmlessRecords() []harmless {
	return []harmless{
		{"a killed run cannot tidy its ledger", func(in *oracle.Input) {
			in.Killed, in.Completed = true, false
			in.Snapshot.Ledger[0] = oracle.Entry{RunID: "r1", Status: "running"}
		}},
		{"an earlier run's row is not this one's fault", func(in *oracle.Input) {
			row := oracle.Entry{RunID: "r0", Status: "running"}
			in.Snapshot.Ledger = append(in.Snapshot.Ledger, row)
			in.Earlier = &oracle.Snapshot{Ledger: []oracle.Entry{row}}
		}},
		{"a vote gave way to another one", func(in *oracle.Input) {
			in.Earlier = &oracle.Snapshot{Votes: []oracle.Vote{
				{Card: "a", Printing: "p9", Agent: "ocr-v1", Source: "ocr", RunID: "r0"},
				{Card: "b", Printing: "p9", Agent: "nobody", Source: "user"},
			}}
		}},
		{"no session can be told from another", func(in *oracle.Input) {
			in.Events = nil
		}},
		{"a killed coordinator's session ends with it", func(in *oracle.Input) {
			in.Killed, in.Completed = true, false
			in.Report.Endings[0].Rule = "process.died"
		}},
		{"a failed row with its reason", func(in *oracle.Input) {
			in.Completed = false
			in.Snapshot.Ledger[0] = oracle.Entry{RunID: "r1", Status: "failed", Finished: true, Reason: "worker 1 died"}
		}},
		{"work is unfinished and nobody says otherwise", func(in *oracle.Input) {
			in.Completed = false
			in.Snapshot.Evidence, in.Snapshot.Votes, in.Snapshot.Cards[1].Status = nil, nil, "unresolved"
		}},
		{"a card was skipped by name", func(in *oracle.Input) {
			in.Snapshot.Cards = append(in.Snapshot.Cards, oracle.Card{Identifier: "c", Hashed: true, Status: "unresolved"})
			in.Snapshot.Scans = append(in.Snapshot.Scans, oracle.Scan{Card: "c", Agent: "fetch", Reason: "404", RunID: "r1"})
		}},
		{"two agents agree", func(in *oracle.Input) {
			in.Snapshot.Votes = append(in.Snapshot.Votes, oracle.Vote{Card: "a", Printing: "p1", Agent: "deduce-v1", Source: "deduction", RunID: "r1"})
		}},
		{"two contents of one card", func(in *oracle.Input) {
			in.Snapshot.Evidence = append(in.Snapshot.Evidence, oracle.Evidence{Card: "a", Hash: 3, RunID: "r1"})
		}},
	}
}

func harmlessSessions() []harmless {
	return []harmless{
		{"a recycled worker's session comes after the first worker's", func(in *oracle.Input) {
			in.Events = []event.Event{
				opened(1, "coordinator"), opened(9, "slot"), closed(9), opened(2, "worker-1"), closed(2), opened(3, "worker-1"), closed(3), closed(1),
			}
		}},
		{"a session opened after the coordinator's that is no worker's", func(in *oracle.Input) {
			in.Events = append(in.Events, opened(3, "ledger"), closed(3))
		}},
		{"any number of sessions of any program", func(in *oracle.Input) {
			in.Workers = 0
			for n := 10; n < 30; n++ {
				in.Events = append(in.Events, opened(n, "x"))
			}
		}},
		{"many sessions, one after the other", func(in *oracle.Input) {
			for n := 10; n < 30; n++ {
				in.Events = append(in.Events, opened(n, "x"), closed(n))
			}
		}},
	}
}

func TestPromisesAreNamedOnceAndSayWhatTheyMean(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range oracle.Promises() {
		assert.Assert(t, !seen[p.Name], p.Name)
		seen[p.Name] = true
		assert.Assert(t, p.Sentence != "" && p.Breaches != nil, p.Name)
	}
	assert.Assert(t, !seen[oracle.Convergence], "convergence is judged on two snapshots, by itself")
}

func TestManyBreachesAreShortened(t *testing.T) {
	t.Parallel()
	findings := oracle.Judge(oracle.Input{ProcessesLeft: []int{1, 2, 3, 4, 5}})
	assert.Equal(t, len(findings), 1)
	assert.Equal(t, findings[0].Message, "at rest no process of the subject is left: pid 1; pid 2; pid 3; and 2 more")
}
