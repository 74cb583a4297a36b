package report_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/golden"

	"deadwire/harness/diagnose"
	"deadwire/harness/event"
	"deadwire/harness/report"
	"deadwire/harness/verdict"
)

// spy counts what it is told; each of its calls can be made to go wrong.
type spy struct {
	begun, started int
	cases          []report.Case
	run            report.Run
	panics         bool
	err            error
}

func (s *spy) Begin(report.Plan) {
	s.begun++
	if s.panics {
		panic("spy")
	}
}
func (s *spy) CaseStarted(report.Name)   { s.started++ }
func (s *spy) CaseDone(c report.Case)    { s.cases = append(s.cases, c) }
func (s *spy) Done(run report.Run) error { s.run = run; return s.err }

func TestMultiNeverLosesAReporter(t *testing.T) {
	t.Parallel()
	errDisk := errors.New("no space")
	first, second, third := &spy{panics: true}, &spy{err: errDisk}, &spy{}
	multi := report.NewMulti(first, second, third)
	multi.Begin(report.Plan{})
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			multi.CaseStarted(report.Name{})
			multi.CaseDone(report.Case{Verdict: verdict.Pass})
		})
	}
	group.Wait()
	err := multi.Done(report.Run{Seed: "7"})
	assert.ErrorIs(t, err, errDisk)
	assert.ErrorContains(t, err, "panic: spy")
	for _, s := range []*spy{first, second, third} {
		assert.Equal(t, s.begun, 1)
		assert.Equal(t, s.started, 10)
		assert.Equal(t, len(s.cases), 10)
		assert.Equal(t, s.run.Seed, "7")
	}
}

func TestMultiMasksAndNeverPassesNull(t *testing.T) {
	t.Parallel()
	s := &spy{}
	original := report.Case{
		Error:   "connect postgres://u:h0rse@h",
		Endings: []diagnose.Ending{{Actor: diagnose.Actor{Argv: []string{"psql", "postgres://u:h0rse@h"}}}},
	}
	report.NewMulti(s).CaseDone(original)
	data, err := json.Marshal(s.cases[0])
	assert.NilError(t, err)
	assert.Check(t, !strings.Contains(string(data), "h0rse"), "%s", data)
	assert.Check(t, !strings.Contains(string(data), "null"), "%s", data)
	assert.Equal(t, original.Endings[0].Actor.Argv[1], "postgres://u:h0rse@h", "the caller's data was changed")
}

func TestTheJSONFileIsAContract(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "run.json"))
	assert.NilError(t, err)
	var run report.Run
	assert.NilError(t, json.Unmarshal(data, &run))

	path := filepath.Join(t.TempDir(), "run.json")
	assert.NilError(t, report.NewFile(path).Done(run))
	assertGolden(t, path, "run.golden.json")

	path = filepath.Join(t.TempDir(), "exec.json")
	run.Cases = run.Cases[:1]
	assert.NilError(t, report.WriteExec(path, report.Exec{
		Run: run, Command: []string{"psql", "postgres://u:h0rse@h"}, ExitCode: 1,
		Sharing: []report.Sharing{{Session: 3, Opener: 8123, Holder: 8131}},
	}))
	assertGolden(t, path, "exec.golden.json")
}

func assertGolden(t *testing.T, path, name string) {
	t.Helper()
	data, err := os.ReadFile(path)
	assert.NilError(t, err)
	assert.Check(t, !strings.Contains(string(data), "h0rse"), "a password got out")
	golden.Assert(t, string(data), name)
}

func TestAnEmptyRunHasListsNotNulls(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "exec.json")
	assert.NilError(t, report.WriteExec(path, report.Exec{}))
	data, err := os.ReadFile(path)
	assert.NilError(t, err)
	assert.Check(t, !strings.Contains(string(data), "null"), "%s", data)
}

func TestSummariseCounts(t *testing.T) {
	t.Parallel()
	run := report.Summarise(report.Plan{Seed: "7"}, []report.Case{{Verdict: verdict.Pass}, {Verdict: verdict.Skip}})
	assert.DeepEqual(t, run.Totals, verdict.Totals{Pass: 1, Skip: 1})
	assert.Equal(t, run.Verdict(), verdict.Pass)
	run.Interrupted = true
	assert.Equal(t, run.Verdict(), verdict.Undetermined)
}

func TestPlainDisarmsText(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"colour":          {"\x1b[31mred\x1b[0m", "red"},
		"window title":    {"\x1b]0;owned\x07x", "x"},
		"torn sequence":   {"a\x1b", "a"},
		"lines":           {"a\r\n\tb", "a b"},
		"bell and delete": {"a\x07\x7fb", "ab"},
		"bidi override":   {"a\u202eb\u2066c", "abc"},
		"invalid UTF-8":   {"a\xffb", "ab"},
		"password":        {"postgres://u:\x1b[1mpw@h", "postgres://u:***@h"},
		"other languages": {"Verbindung geschlossen: é 接続", "Verbindung geschlossen: é 接続"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, report.Plain(tc.text), tc.want)
		})
	}
}

func TestDurationReadsAsPeopleSayIt(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int64]string{0: "0.0s", 420: "0.4s", 8400: "8.4s", 134210: "2m14s", 120000: "2m", 610_000: "10m10s", 3_600_000: "1h0m"} {
		assert.Equal(t, report.Duration(ms), want)
	}
}

func TestWhoNamesEveryKindOfActor(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]diagnose.Ending{
		"inheritor 8131 (worker 2, child of 8123) sent Terminate and ended the session while idle": {
			Actor:  diagnose.Actor{Kind: diagnose.Inheritor, PID: 8131, PPID: 8123, Argv: []string{"/bin/worker", "2"}},
			Manner: event.Terminate, State: event.Idle,
		},
		"the server ended the session while in transaction": {
			Actor: diagnose.Actor{Kind: diagnose.Server}, Manner: event.Fatal, State: event.InTransaction,
		},
		"the fault network.reset reset the session while in query": {
			Actor: diagnose.Actor{Kind: diagnose.Fault, Fault: "network.reset"}, Manner: event.RST, State: event.InQuery,
		},
		"the exit of process 7 closed the session while idle": {
			Actor: diagnose.Actor{Kind: diagnose.Kernel, PID: 7}, Manner: event.FIN, State: event.Idle,
		},
		"an unknown actor silenced the session in an unknown state": {Manner: event.Silence},
	} {
		assert.Equal(t, report.Who(e), want)
	}
	long := diagnose.Actor{Kind: diagnose.Opener, PID: 1, Argv: []string{"x", strings.Repeat("é", 500)}}
	assert.Check(t, is.Len([]rune(report.Actor(long)), 71))
}
