package terminal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/lipgloss"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"gotest.tools/v3/golden"

	"deadwire/harness/diagnose"
	"deadwire/harness/report"
	"deadwire/harness/report/terminal"
)

// recorded returns the one recorded run that all formats show.
func recorded(t *testing.T) report.Run {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "run.json"))
	assert.NilError(t, err)
	var run report.Run
	assert.NilError(t, json.Unmarshal(data, &run))
	return run
}

// replay tells a reporter the run as it happened.
func replay(t *testing.T, run report.Run, r report.Reporter) {
	t.Helper()
	plan := report.Plan{Version: run.Version, Seed: run.Seed, Dir: run.Dir, Postgres: run.Postgres}
	for _, c := range run.Cases {
		plan.Cases = append(plan.Cases, c.Name)
	}
	multi := report.NewMulti(r)
	multi.Begin(plan)
	for _, c := range run.Cases {
		multi.CaseStarted(c.Name)
		multi.CaseDone(c)
	}
	assert.NilError(t, multi.Done(run))
}

func TestFormatsMatchTheirGoldens(t *testing.T) {
	t.Parallel()
	for _, format := range []terminal.Format{terminal.List, terminal.Dots, terminal.Quiet} {
		for _, width := range []int{60, 80, 120} {
			t.Run(fmt.Sprintf("%s-%d", format, width), func(t *testing.T) {
				t.Parallel()
				var out, progress bytes.Buffer
				replay(t, recorded(t), terminal.New(terminal.Screen{Out: &out, Err: &progress, Width: width}, format))
				golden.Assert(t, out.String(), fmt.Sprintf("%s-%d.golden", format, width))
				assert.Equal(t, progress.String(), "", "progress without a terminal")
				assertFits(t, out.String(), width)
			})
		}
	}
}

// assertFits checks that no line is too long, except the last, commands to paste,
// and those made of one word that must stay whole.
func assertFits(t *testing.T, text string, width int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for _, line := range lines[:len(lines)-1] {
		assert.Check(t, strings.TrimRight(line, " ") == line, "trailing space: %q", line)
		command := strings.HasPrefix(line, "run ") || strings.HasPrefix(line, "  look ") || strings.HasPrefix(line, "  again ")
		if strings.ContainsRune(strings.TrimSpace(line), ' ') && !command {
			assert.Check(t, lipgloss.Width(line) <= width, "%d columns: %q", lipgloss.Width(line), line)
		}
	}
}

func TestColourFollowsTheScreen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	replay(t, recorded(t), terminal.New(terminal.Screen{Out: &out, Colour: true}, terminal.List))
	golden.Assert(t, out.String(), "list-colour.golden")
}

func TestTheFailureBlockAnswersWhoHowAndHowSure(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	replay(t, recorded(t), terminal.New(terminal.Screen{Out: &out, Width: 120}, terminal.List))
	for _, want := range []string{
		"dispatched-at-most-once", "#5160", // the promise and its evidence
		"inheritor 8150", "child of 8140", "manner terminate", "certainty holders", "#5200",
		"deadwire show /srv/app/.deadwire/runs/2026-08-23T10-41-07.123Z-3f9a1c", "--seed 0x5eed1a2b", "events.jsonl",
	} {
		assert.Check(t, is.Contains(out.String(), want))
	}
}

func TestNoSecretAndNoControlCharacterGetsOut(t *testing.T) {
	t.Parallel()
	for _, format := range []terminal.Format{terminal.List, terminal.Dots, terminal.Quiet} {
		var out bytes.Buffer
		replay(t, recorded(t), terminal.New(terminal.Screen{Out: &out}, format))
		assert.Check(t, !strings.Contains(out.String(), "h0rse"), "%s", out.String())
		assert.Check(t, !strings.ContainsAny(out.String(), "\x1b\x07\r"), "%q", out.String())
	}
}

func TestTheLastLineHoldsVerdictAndSeed(t *testing.T) {
	t.Parallel()
	run := recorded(t)
	run.Interrupted = true
	for _, format := range []terminal.Format{terminal.List, terminal.Dots, terminal.Quiet} {
		var out bytes.Buffer
		replay(t, run, terminal.New(terminal.Screen{Out: &out, Width: 60}, format))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		assert.Equal(t, lines[len(lines)-1], "DONE 5 cases: 2 passed, 1 failed, 1 undetermined, 1 skipped (docker is not running) in 2m14s, interrupted   verdict fail   seed 0x5eed1a2b")
	}
}

func TestProgressIsRewrittenOnTerminalsOnly(t *testing.T) {
	t.Parallel()
	var out, progress bytes.Buffer
	replay(t, recorded(t), terminal.New(terminal.Screen{Out: &out, Err: &progress, Interactive: true}, terminal.List))
	assert.Check(t, is.Contains(progress.String(), "  2 of 5   running ack-lost-on-commit/fixed"))
	assert.Check(t, strings.HasSuffix(progress.String(), "\r\x1b[K"), "the line was left: %q", progress.String())
}

func TestALongRunNamesWhatItDoesNotShow(t *testing.T) {
	t.Parallel()
	run := recorded(t)
	failed := run.Cases[2]
	failed.Findings = append(failed.Findings, make([]diagnose.Finding, 9)...)
	run.Cases = nil
	for range 25 {
		run.Cases = append(run.Cases, failed)
	}
	var out bytes.Buffer
	assert.NilError(t, terminal.New(terminal.Screen{Out: &out}, terminal.List).Done(run))
	assert.Equal(t, strings.Count(out.String(), "FAIL  ack-lost-on-commit/fixed   seed"), 20)
	assert.Equal(t, strings.Count(out.String(), "and 5 more findings"), 20)
	assert.Equal(t, strings.Count(out.String(), "FAIL          ack-lost-on-commit/fixed"), 5)
}

func TestAWriterThatFailsIsReported(t *testing.T) {
	t.Parallel()
	r := terminal.New(terminal.Screen{Out: broken{}}, terminal.List)
	assert.ErrorIs(t, r.Done(recorded(t)), errBroken)
}

var errBroken = errors.New("broken pipe")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestDetectHonoursTheEnvironment(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "out")) // not a terminal
	assert.NilError(t, err)
	defer file.Close()
	for name, tc := range map[string]struct {
		env    map[string]string
		colour bool
		width  int
	}{
		"a file":                         {nil, false, 80},
		"forced":                         {map[string]string{"FORCE_COLOR": "1"}, true, 80},
		"forced off":                     {map[string]string{"FORCE_COLOR": "0"}, false, 80},
		"forbidden beats forced":         {map[string]string{"FORCE_COLOR": "1", "NO_COLOR": "1"}, false, 80},
		"an empty NO_COLOR says nothing": {map[string]string{"FORCE_COLOR": "1", "NO_COLOR": ""}, true, 80},
		"forced in CI":                   {map[string]string{"FORCE_COLOR": "1", "CI": "true"}, true, 80},
		"columns":                        {map[string]string{"COLUMNS": "100"}, false, 100},
		"columns that are not a number":  {map[string]string{"COLUMNS": "wide"}, false, 80},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := terminal.Detect(file, file, func(key string) string { return tc.env[key] })
			assert.Equal(t, s.Colour, tc.colour)
			assert.Equal(t, s.Width, tc.width)
			assert.Check(t, !s.Interactive)
		})
	}
}

func TestExecShowsWhatIsNotOrdinary(t *testing.T) {
	t.Parallel()
	run := recorded(t)
	run.Cases = run.Cases[:1]
	run.Totals = report.Summarise(report.Plan{}, run.Cases).Totals
	var out, errs bytes.Buffer
	assert.NilError(t, terminal.ShowExec(terminal.Screen{Out: &out, Err: &errs, Width: 100}, report.Exec{
		Run: run, Command: []string{"python3", "app.py"}, ExitCode: 1,
		Sharing: []report.Sharing{{Session: 3, Opener: 8123, Holder: 8131}},
	}))
	assert.Equal(t, out.String(), "", "standard output belongs to the subject")
	golden.Assert(t, errs.String(), "exec.golden")
}
