package soak

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/faults/schedule"
	"deadwire/harness/report"
	"deadwire/harness/verdict"
)

// Whatever a seed draws, the round is a scenario that can be read back with the
// same faults, so repro.yaml is what the soak ran.
func TestEveryRoundIsAScenario(t *testing.T) {
	t.Parallel()
	policy := Policy{Schedule: schedule.Policy{OwnServer: true}}
	for n := 1; n <= 60; n++ {
		round := Nth("seed", policy, n)
		entries := round.Faults
		text, err := Text("seed", round)
		assert.NilError(t, err)
		again, err := Text("seed", round)
		assert.NilError(t, err)
		assert.Equal(t, text, again)
		_, c, err := Parse(text)
		assert.NilError(t, err, text)
		assert.Equal(t, len(c.Faults), len(entries))
		for i, f := range c.Faults {
			assert.DeepEqual(t, f.Fault, entries[i].Fault)
		}
	}
}

func TestAPolicyIsReadStrictly(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{"unknown field", "weigths: {fork: 1}\n", `unknown field "weigths"`},
		{"unknown kind", "weights: {network.ct: 1}\n", `weights: unknown kind "network.ct" (did you mean "network.cut"?)`},
		{"unknown metric", "thresholds: [\"lots == 0\"]\n", `unknown metric "lots" (did you mean "lost"?)`},
		{"no comparison", "thresholds: [\"recovery p95\"]\n", `want METRIC < NUMBER`},
		{"no unit", "thresholds: [\"recovery p95 < 2\"]\n", `recovery p95 is in ms, s or m`},
		{"wrong unit", "thresholds: [\"lost < 2s\"]\n", `lost is in plain numbers`},
		{"negative", "cards: -1\n", "cards: -1 is negative"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "policy.yaml")
			assert.NilError(t, os.WriteFile(file, []byte(tc.text), 0o600))
			_, err := ReadPolicy(file)
			assert.ErrorContains(t, err, tc.want)
			assert.ErrorContains(t, err, "policy.yaml")
		})
	}
}

func TestThresholdsCompare(t *testing.T) {
	t.Parallel()
	tally := newTally()
	for n := range 100 {
		c := report.Case{Verdict: verdict.Pass, RecoveryMS: int64(n + 1), Faults: []string{"fork"}}
		if n == 0 {
			c = report.Case{Verdict: verdict.Fail, Faults: []string{"network.cut", "fork"}}
		}
		tally.add(c)
	}
	for text, want := range map[string]bool{
		"failed == 0": false, "failed < 2": true, "rounds >= 100": true, "bites > 101": false, "bites <= 101": true, "kinds == 2": true,
		"recovery p95 < 90ms": false, "recovery p95 < 120ms": true, "recovery max <= 1m": true, "lost == 0": true, "rss growth < 5%": true,
	} {
		c, err := parseCondition(text)
		assert.NilError(t, err)
		assert.Equal(t, c.holds(tally.Number(c.metric)), want, text)
	}
}

func TestQuantilesAreWithinATenth(t *testing.T) {
	t.Parallel()
	var h histogram
	for ms := range 1000 {
		h.add(time.Duration(ms+1) * time.Millisecond)
	}
	for q, want := range map[float64]float64{0.5: 500, 0.95: 950, 1: 1000} {
		got := float64(h.quantile(q).Milliseconds())
		assert.Assert(t, got >= want*0.99 && got <= want*1.11, "%g: %g", q, got)
	}
}

func TestASeriesIsBoundedAndTellsGrowth(t *testing.T) {
	t.Parallel()
	var flat, growing series
	for n := range 100_000 {
		flat.add(50)
		growing.add(50 + float64(n)/1000)
	}
	assert.Assert(t, len(flat.samples) < seriesMax)
	assert.Equal(t, flat.growth(), 0.0)
	assert.Assert(t, growing.growth() > 0.5, "%g", growing.growth())
}

func TestNothingThatActedProvesNothing(t *testing.T) {
	t.Parallel()
	r := Result{Tally: newTally()}
	r.Tally.add(report.Case{Verdict: verdict.Undetermined})
	assert.Equal(t, r.Verdict(), verdict.Undetermined)
	r.Tally.add(report.Case{Verdict: verdict.Pass, Faults: []string{"fork"}})
	assert.Equal(t, r.Verdict(), verdict.Pass)
	r.Missed = []string{"rounds >= 100: it is 2"}
	assert.Equal(t, r.Verdict(), verdict.Fail)
}

// A program's round judges the second run by everything that was asked for, the
// first only by what may never be.
func TestARoundOfAProgramIsAScenario(t *testing.T) {
	t.Parallel()
	policy := Policy{Program: &Program{Command: []string{"/bin/app", "--once"}, Check: "select 1 where false", Expect: "done", Forbid: "panic:"}}
	assert.NilError(t, policy.Check())
	for n := 1; n <= 20; n++ {
		text, err := Text("seed", Nth("seed", policy, n))
		assert.NilError(t, err)
		s, c, err := Parse(text)
		assert.NilError(t, err, text)
		assert.DeepEqual(t, s.Command, policy.Program.Command)
		assert.Equal(t, c.Expect.Forbid+c.Expect.NoRows+c.Expect.Output, "panic:")
		end := c.Resume.Expect
		assert.DeepEqual(t, []string{end.Outcome, end.NoRows, end.Output, end.Forbid}, []string{"completes", "select 1 where false", "done", "panic:"})
		assert.Assert(t, !end.Converges)
	}
	policy.Program.Forbid = "("
	assert.ErrorContains(t, policy.Check(), "forbid: ")
}
