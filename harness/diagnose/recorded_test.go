package diagnose_test

import (
	"compress/gzip"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	"pgregory.net/rapid"

	"deadwire/harness/diagnose"
	"deadwire/harness/event"
)

// recording returns the journal of a real run: testdata/runs/NAME.jsonl.gz is the
// events.jsonl that `deadwire run` left for the case of that name.
func recording(tb testing.TB, name string) []event.Event {
	tb.Helper()
	file, err := os.Open(filepath.Join("testdata", "runs", name+".jsonl.gz"))
	assert.NilError(tb, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	assert.NilError(tb, err)
	events, err := event.Read(unzipped)
	assert.NilError(tb, err)
	assert.Assert(tb, len(events) > 0)
	return events
}

func recordings(tb assert.TestingT) []string {
	files, err := filepath.Glob("testdata/runs/*.jsonl.gz")
	assert.NilError(tb, err)
	assert.Assert(tb, len(files) > 0)
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".jsonl.gz")
	}
	return files
}

// eachRecording runs check as a subtest for every recording.
func eachRecording(t *testing.T, check func(t *testing.T, events []event.Event)) {
	t.Helper()
	for _, name := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, recording(t, name))
		})
	}
}

func rendered(tb testing.TB, r diagnose.Report) string {
	tb.Helper()
	text, err := json.MarshalIndent(r, "", " ")
	assert.NilError(tb, err)
	return string(text) + "\n"
}

// Every word of the reports of real runs is pinned; -update writes them anew.
func TestReportsOfRecordedRuns(t *testing.T) {
	t.Parallel()
	for _, name := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden.Assert(t, rendered(t, diagnose.Explain(recording(t, name))), "runs/"+name+".json")
		})
	}
}

func rulesOf(r diagnose.Report) []string {
	var rules []string
	for _, e := range r.Endings {
		rules = append(rules, e.Rule)
	}
	for _, f := range r.Findings {
		rules = append(rules, f.Rule)
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

// exemplars names for each rule the recordings that must trigger it and near
// misses that must not. What was never recorded is built by hand.
func exemplars() map[string]struct{ triggers, misses []string } {
	sets := map[string]struct{ triggers, misses []string }{
		"fork.inherited-terminate": {
			[]string{
				"inherited-terminate.broken", "inherited-terminate.broken-by-shutdown", "terminate-at-exit.broken",
				"tls-pool-initializer.broken", "pool-initializer.guarded", "pieces.guarded", "tls-plain-terminate.broken", "sqlalchemy-dispose.broken",
			},
			[]string{
				"inherited-terminate.fixed", "inherited-terminate.fixed-by-close", "terminate-at-exit.fixed",
				"tls-pool-initializer.fixed", "tls-fork-both.broken", "daemon.broken", "tls-daemon.broken", "daemon-unwatched.broken",
			},
		},
		"fork.shared-tls":         {[]string{"tls-fork-both.broken", "python-fork-tls.broken"}, []string{"tls-fork-both.fixed", "tls-pool-initializer.broken", "fork-both.broken"}},
		"fork.shared-query":       {[]string{"shared-query.broken"}, []string{"shared-query.fixed", "inherited-terminate.broken"}},
		"fork.held-by-descendant": {[]string{"held-by-worker.broken"}, []string{"held-by-worker.fixed", "compute-crash.killed"}},
		"backend.admin-terminate": {[]string{"admin-terminate.idle", "admin-terminate.in-query", "restart-fast.restarted"}, []string{"crash-restart.backend-killed"}},
		"backend.crash-restart":   {[]string{"crash-restart.backend-killed"}, []string{"admin-terminate.idle"}},
		"network.closed":          {[]string{"connection-dropped.fin-at-persist", "link-down.closed"}, []string{"connection-dropped.rst-at-persist", "compute-crash.killed"}},
		"network.reset":           {[]string{"connection-dropped.rst-at-persist"}, []string{"connection-dropped.fin-at-persist"}},
		"network.blackhole":       {[]string{"connection-dropped.blackhole-at-persist", "link-down.swallowed"}, []string{"slow-network.delayed", "link-down.closed"}},
		"txn.ambiguous-commit":    {[]string{"stalled-commit.too-long", "stalled-commit.answered-late", "connection-dropped.fin-at-commit", "connection-dropped.fin-at-commit-answer"}, []string{"connection-dropped.fin-at-persist", "fault-free"}},
		"process.broken-pool":     {[]string{"python-broken-pool.broken", "built:broken pool", "built:broken pool, reported out of order"}, []string{"built:workers killed one by one", "built:pool ended with its parent", "compute-crash.killed"}},
		"process.died":            {[]string{"compute-crash.killed", "held-by-worker.fixed"}, []string{"inherited-terminate.broken-by-shutdown", "fault-free"}},
		"close.ordinary":          {[]string{"fault-free", "inherited-terminate.fixed"}, nil},
		"unknown":                 {[]string{"built:fin without exit"}, []string{"fault-free", "inherited-terminate.broken", "held-by-worker.broken"}},
		"fork.opener-left":        {[]string{"built:opener left", "daemon.broken", "tls-daemon.broken", "daemon-unwatched.broken"}, []string{"daemon.fixed", "built:opener closed last", "fault-free"}},
		"process.handed-over":     {[]string{"built:handed over", "built:handed over, shutdown"}, []string{"built:inherited terminate", "inherited-terminate.broken"}},
		"backend.client-gone":     {[]string{"client-gone.broken"}, []string{"client-gone.fixed", "held-by-worker.broken"}},
		"network.silent-drop":     {[]string{"idle-cut.broken", "idle-cut.fixed"}, []string{"connection-dropped.blackhole-at-persist", "link-down.swallowed", "idle-timeout.broken"}},
		"server.refused":          {[]string{"built:nobody listens"}, []string{"built:starting up", "link-down.closed", "restart-fast.restarted"}},
		"backend.session-timeout": {[]string{"idle-timeout.broken", "built:idle in transaction timeout", "built:idle timeout", "built:transaction timeout"}, []string{"built:statement timeout", "admin-terminate.idle"}},
		"capacity.exhausted":      {[]string{"slots-exhausted.broken", "built:no slot left"}, []string{"built:starting up", "restart-fast.restarted"}},
	}
	maps.Copy(sets, threadExemplars())
	return sets
}

func TestEveryRuleHasAnExampleAndANearMiss(t *testing.T) {
	t.Parallel()
	examples := exemplars()
	for _, rule := range diagnose.Rules() {
		example, ok := examples[rule.ID]
		assert.Assert(t, ok && len(example.triggers) > 0, "no example of %s", rule.ID)
		for _, name := range example.triggers {
			t.Run(rule.ID+"/by "+name, func(t *testing.T) {
				t.Parallel()
				rules := rulesOf(diagnose.Explain(named(t, name)))
				assert.Assert(t, slices.Contains(rules, rule.ID), "found %v", rules)
			})
		}
		for _, name := range example.misses {
			t.Run(rule.ID+"/not by "+name, func(t *testing.T) {
				t.Parallel()
				rules := rulesOf(diagnose.Explain(named(t, name)))
				assert.Assert(t, !slices.Contains(rules, rule.ID), "found %v", rules)
			})
		}
		delete(examples, rule.ID)
	}
	assert.Equal(t, len(examples), 0, "no such rules: %v", examples)
}

// named returns a recording, or for "built:NAME" a journal made by hand.
func named(tb testing.TB, name string) []event.Event {
	tb.Helper()
	if built, ok := strings.CutPrefix(name, "built:"); ok {
		all := builtJournals()
		maps.Copy(all, poolJournals())
		maps.Copy(all, threadJournals())
		make, known := all[built]
		assert.Assert(tb, known, "no journal %q is built", built)
		return make()
	}
	return recording(tb, name)
}

func TestHealthyRunsHaveNothingToReport(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"fault-free", "inherited-terminate.fixed", "inherited-terminate.fixed-by-close",
		"shared-query.fixed", "terminate-at-exit.fixed", "slow-network.delayed",
		"tls-fork-both.fixed", "tls-pool-initializer.fixed", "daemon.fixed",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := diagnose.Explain(recording(t, name))
			assert.Equal(t, len(report.Findings), 0, "%+v", report.Findings)
			assert.Equal(t, len(report.Endings), report.Sessions, "every session has ended")
			for _, e := range report.Endings {
				assert.Assert(t, e.Expected, "%s: %s", e.Rule, e.Message)
			}
		})
	}
}

func TestExplainIsPure(t *testing.T) {
	t.Parallel()
	eachRecording(t, func(t *testing.T, events []event.Event) {
		before, err := json.Marshal(events)
		assert.NilError(t, err)
		first := rendered(t, diagnose.Explain(events))
		for range 5 { // maps iterate differently each time
			assert.Equal(t, rendered(t, diagnose.Explain(events)), first)
		}
		after, err := json.Marshal(events)
		assert.NilError(t, err)
		assert.Equal(t, string(after), string(before), "the events are only read")
	})
}

// Events carry their order with them: where they stand in the slice is nothing.
func TestReportDoesNotDependOnTheOrderOfTheSlice(t *testing.T) {
	t.Parallel()
	eachRecording(t, func(t *testing.T, events []event.Event) {
		want := rendered(t, diagnose.Explain(events))
		shuffled := slices.Clone(events)
		random := rand.New(rand.NewPCG(1, 2))
		for range 3 {
			random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			assert.Equal(t, rendered(t, diagnose.Explain(shuffled)), want)
		}
	})
}

func TestReportIsInTheOrderOfSessionsAndCitesRealEvents(t *testing.T) {
	t.Parallel()
	eachRecording(t, func(t *testing.T, events []event.Event) {
		report := diagnose.Explain(events)
		last := events[len(events)-1].Seq
		number := 0
		for _, e := range report.Endings {
			assert.Assert(t, e.Session > number)
			number = e.Session
			assert.Assert(t, len(e.Evidence) > 0, "%s has no evidence", e.Rule)
			assert.Assert(t, slices.IsSorted(e.Evidence) && e.Evidence[0] > 0 && e.Evidence[len(e.Evidence)-1] <= last)
			assert.Assert(t, e.HoldersBefore != nil && e.HoldersAfter != nil, "JSON lists are lists")
			assert.Assert(t, e.Message != "")
			_, known := diagnose.Lookup(e.Rule)
			assert.Assert(t, known, e.Rule)
		}
		for _, f := range report.Findings {
			assert.Assert(t, len(f.Evidence) > 0 && slices.IsSorted(f.Evidence))
		}
	})
}

func without(events []event.Event, drop func(event.Event) bool) []event.Event {
	return slices.DeleteFunc(slices.Clone(events), drop)
}

// pidsConfessed are the processes that said of themselves that they had done it.
func pidsConfessed(events []event.Event) []int {
	var pids []int
	for _, e := range events {
		if e.Kind == event.FaultBit && e.Fault.Name == "fork" {
			pids = append(pids, e.PID)
		}
	}
	return pids
}

// isProgram reports whether an event is the start of a program of scenarios/programs.
func isProgram(e event.Event) bool {
	return e.Kind == event.ProcessStarted && len(e.Process.Argv) > 1 && strings.HasSuffix(e.Process.Argv[1], ".py")
}

func TestExactWitnessAccusesOnlyWhoConfessed(t *testing.T) {
	t.Parallel()
	eachRecording(t, func(t *testing.T, events []event.Event) {
		guilty := pidsConfessed(events)
		if len(guilty) == 0 && slices.ContainsFunc(events, isProgram) {
			t.Skip("a program that was not made for us confesses nothing")
		}
		for _, e := range diagnose.Explain(events).Endings {
			if e.Actor.Kind == diagnose.Inheritor {
				assert.Assert(t, slices.Contains(guilty, e.Actor.PID), "pid %d is accused, %v confessed", e.Actor.PID, guilty)
				assert.Equal(t, e.Certainty, diagnose.Exact)
			}
		}
	})
}

// Where system calls cannot be observed, silence is allowed and guessing is not.
func TestWithoutCallsNobodyIsAccusedWrongly(t *testing.T) {
	t.Parallel()
	eachRecording(t, func(t *testing.T, events []event.Event) {
		guilty := pidsConfessed(events)
		seen := diagnose.Explain(events)
		blind := diagnose.Explain(without(events, func(e event.Event) bool { return e.Kind == event.ProcessCalled }))
		assert.Equal(t, len(blind.Endings), len(seen.Endings))
		for i, e := range blind.Endings {
			if e.Actor.Kind == diagnose.Inheritor {
				assert.Assert(t, slices.Contains(guilty, e.Actor.PID), "pid %d is accused, %v confessed", e.Actor.PID, guilty)
			}
			if e.Manner == event.Terminate {
				assert.Assert(t, e.Certainty != diagnose.Exact, "session %d: %s", e.Session, e.Message)
			}
			// What a guard kept from the server is accused as a finding where it was seen.
			kept := slices.ContainsFunc(seen.Findings, func(f diagnose.Finding) bool { return f.Session == e.Session && f.Rule == "fork.inherited-terminate" })
			if seen.Endings[i].Rule == "close.ordinary" && !kept {
				assert.Assert(t, e.Rule == "close.ordinary" || e.Rule == diagnose.RuleUnknown, "session %d: %s: %s", e.Session, e.Rule, e.Message)
			}
			if seen.Endings[i].Rule == "fork.inherited-terminate" {
				assert.Assert(t, e.Rule == "fork.inherited-terminate" || e.Rule == diagnose.RuleUnknown, "session %d: %s: %s", e.Session, e.Rule, e.Message)
			}
		}
	})
}

func TestWithoutCallsNobodyIsNamedForATerminate(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]string{
		"inherited-terminate.broken": "fork.inherited-terminate", // its opener holds on to it
		"terminate-at-exit.broken":   diagnose.RuleUnknown,       // its opener reads the end and lets go
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blind := without(recording(t, name), func(e event.Event) bool { return e.Kind == event.ProcessCalled })
			ending := diagnose.Explain(blind).Endings[0]
			assert.Equal(t, ending.Rule, rule, ending.Message)
			assert.DeepEqual(t, ending.Actor, diagnose.Actor{Kind: diagnose.Unknown})
			assert.Equal(t, ending.Certainty, diagnose.Inferred)
		})
	}
}

func TestWithoutCallsHealthyRunsStayHealthy(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"fault-free", "terminate-at-exit.fixed", "inherited-terminate.fixed", "slow-network.delayed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blind := without(recording(t, name), func(e event.Event) bool { return e.Kind == event.ProcessCalled })
			for _, e := range diagnose.Explain(blind).Endings {
				assert.Equal(t, e.Rule, "close.ordinary", "session %d: %s", e.Session, e.Message)
			}
		})
	}
}

// With one tap, what comes from beyond it may be the network or the server; only
// our own faults and the server's own word are certain.
func TestWithOneTapTheNetworkIsNeverBlamedForSure(t *testing.T) {
	t.Parallel()
	eachRecording(t, func(t *testing.T, events []event.Event) {
		watch := without(events, func(e event.Event) bool { return e.Session.Place == event.Back })
		for _, e := range diagnose.Explain(watch).Endings {
			if e.Actor.Kind != diagnose.Fault && strings.HasPrefix(e.Rule, "network.") {
				t.Errorf("session %d: %s: %s", e.Session, e.Rule, e.Message)
			}
		}
	})
}

func TestWithOneTapForeignTerminateIsStillSeen(t *testing.T) {
	t.Parallel()
	events := recording(t, "inherited-terminate.broken")
	watch := without(events, func(e event.Event) bool { return e.Session.Place == event.Back })
	ending := diagnose.Explain(watch).Endings[0]
	assert.Equal(t, ending.Rule, "fork.inherited-terminate")
	assert.Assert(t, slices.Contains(pidsConfessed(events), ending.Actor.PID))
	assert.Equal(t, ending.Certainty, diagnose.Exact)
}

// A journal may be cut anywhere: a killed run, a full journal, a lost witness.
func TestAnyPartOfARecordingCanBeExplained(t *testing.T) {
	t.Parallel()
	runs := map[string][]event.Event{}
	for _, name := range recordings(t) {
		runs[name] = recording(t, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		events := runs[rapid.SampledFrom(recordings(t)).Draw(t, "recording")]
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		share := rapid.Float64Range(0.01, 0.99).Draw(t, "share")
		report := diagnose.Explain(without(events, func(event.Event) bool { return random.Float64() > share }))
		for _, e := range report.Endings {
			_, known := diagnose.Lookup(e.Rule)
			assert.Assert(t, known && e.Message != "", "session %d: %q: %q", e.Session, e.Rule, e.Message)
		}
		// A cancel request whose one message is lost counts as a session.
		assert.Assert(t, report.Sessions <= diagnose.Explain(events).Sessions+countCancels(events))
	})
}

func countCancels(events []event.Event) int {
	n := 0
	for _, e := range events {
		if e.Kind == event.SessionMessage && e.Message.Type == "CancelRequest" {
			n++
		}
	}
	return n
}

func TestAnyBeginningOfARecordingCanBeExplained(t *testing.T) {
	t.Parallel()
	eachRecording(t, func(t *testing.T, events []event.Event) {
		ended := 0
		for n := 0; n <= len(events); n += 37 {
			report := diagnose.Explain(events[:n])
			assert.Assert(t, len(report.Endings) >= ended, "an ending was taken back at event %d", n)
			ended = len(report.Endings)
		}
	})
}
