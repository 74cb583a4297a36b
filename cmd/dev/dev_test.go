package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"deadwire/harness/witness"
)

// TestMain is the launcher too, which the witness starts programs through.
func TestMain(m *testing.M) {
	if code, launched := witness.Main(); launched {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func TestToolsHaveTheVersionsOfCI(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../../.ci/run")
	assert.NilError(t, err)
	assert.Check(t, is.Contains(string(script), "gofumpt="+gofumpt+"\n"))
	assert.Check(t, is.Contains(string(script), "staticcheck="+staticcheck+"\n"))
}

func TestEveryRowHasANameOfItsOwnAndAGroup(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, row := range rows() {
		assert.Check(t, !seen[row.Name], row.Name)
		seen[row.Name] = true
		assert.Equal(t, strings.Count(row.Name, "/"), 1, row.Name)
		assert.Check(t, row.Unit != "" && row.Prepare != nil, row.Name)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	all := []Row{{Name: "a/x"}, {Name: "a/y"}, {Name: "b/x"}}
	for glob, want := range map[string]int{"a/*": 2, "a": 2, "*/x": 2, "b/x": 1} {
		chosen, err := choose(all, []string{glob})
		assert.NilError(t, err)
		assert.Equal(t, len(chosen), want, glob)
	}
	_, err := choose(all, []string{"c/*"})
	assert.ErrorContains(t, err, "none is called [c/*]")
	_, err = choose(all, []string{"["})
	assert.ErrorContains(t, err, "syntax error")
}

func TestRowsOfAGroupTakeTurns(t *testing.T) {
	t.Parallel()
	var order strings.Builder
	row := func(name string, values ...float64) Row {
		return Row{Name: name, Unit: "ms", Prepare: func(_ context.Context, b *Bench) (Measure, error) {
			b.onStop(func(context.Context) error { order.WriteString("-" + name); return nil })
			return func(context.Context) (float64, error) {
				order.WriteString(" " + name)
				value := values[0]
				values = values[1:]
				return value, nil
			}, nil
		}}
	}
	broken := Row{Name: "g/broken", Prepare: func(context.Context, *Bench) (Measure, error) { return nil, errors.New("not here") }}
	b := &Bench{Rounds: 3, Progress: io.Discard}
	results, err := b.run(t.Context(), []Row{row("g/a", 1, 9, 2), broken, row("g/b", 4, 3, 8), row("h/c", 1, 1, 1)})
	assert.NilError(t, err)
	assert.Equal(t, order.String(), " g/a g/b g/a g/b g/a g/b h/c h/c h/c-h/c-g/b-g/a")
	var out bytes.Buffer
	printTable(&out, results)
	lines := strings.Split(out.String(), "\n")
	assert.DeepEqual(t, strings.Fields(lines[3]), []string{"g/b", "4.000", "ms", "3.000", "8.000", "4.00", "a"}) // of 4, 1/3 and 4
	assert.DeepEqual(t, strings.Fields(lines[2]), []string{"g/broken", "not", "measured:", "not", "here"})
}

func TestRatiosAreTakenRoundByRound(t *testing.T) {
	t.Parallel()
	results := []Result{
		{Row: Row{Name: "g/direct"}, Values: []float64{1, 2, 3}},
		{Row: Row{Name: "g/other"}, Values: []float64{2, 4, 5}},
		{Row: Row{Name: "g/ours", Against: "g/other", Added: true, Limit: "<= 1.25"}, Values: []float64{2, 3, 6}},
		{Row: Row{Name: "h/lost", Against: "g/absent"}, Values: []float64{1}},
	}
	ratio, words := results[2].ratio(results)
	assert.Equal(t, ratio, 1.0) // of 1/1, 1/2 and 3/2
	assert.Equal(t, words, "added, to other, <= 1.25")
	ratio, _ = results[3].ratio(results)
	assert.Check(t, math.IsNaN(ratio))
}

func TestParseReadsPgbench(t *testing.T) {
	t.Parallel()
	const report = "latency average = 0.133 ms\ninitial connection time = 2 ms\ntps = 7512.345678 (without initial connection time)\n"
	latency, err := parse(report, "ms")
	assert.NilError(t, err)
	assert.Equal(t, latency, 0.133)
	tps, err := parse(report, "tps")
	assert.NilError(t, err)
	assert.Equal(t, tps, 7512.345678)
	_, err = parse("", "tps")
	assert.ErrorContains(t, err, "no tps in it")
}

// TestRowsMeasure runs each kind of row once, for real and briefly.
func TestRowsMeasure(t *testing.T) {
	t.Parallel()
	globs := []string{"pgbench-c1/*", "connect/watch", "start/*", "clone/*"}
	if witness.Available() == nil {
		globs = append(globs, "witness-c4/*")
	}
	chosen, err := choose(rows(), globs)
	assert.NilError(t, err)
	b := &Bench{Rounds: 1, RoundTime: time.Second, Progress: io.Discard}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // an ordinary run takes 15 s
	defer cancel()
	results, err := b.run(ctx, chosen)
	assert.NilError(t, err)
	for _, r := range results {
		assert.Check(t, r.Err, r.Name)
		assert.Check(t, is.Len(r.Values, 1), r.Name)
	}
}
