package jsonl_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"deadwire/harness/report"
	"deadwire/harness/report/jsonl"
)

func replay(t *testing.T, r report.Reporter) error {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "run.json"))
	assert.NilError(t, err)
	var run report.Run
	assert.NilError(t, json.Unmarshal(data, &run))
	multi := report.NewMulti(r)
	multi.Begin(report.Plan{Version: run.Version, Seed: run.Seed, Dir: run.Dir, Postgres: run.Postgres})
	for _, c := range run.Cases {
		multi.CaseStarted(c.Name)
		multi.CaseDone(c)
	}
	return multi.Done(run)
}

func TestLinesMatchTheirGolden(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	assert.NilError(t, replay(t, jsonl.New(&out)))
	golden.Assert(t, out.String(), "run.golden")
	assert.Check(t, !strings.Contains(out.String(), "h0rse"), "a password got out")
}

func TestEveryLineIsAnObjectEvenWhenTheRunIsCutShort(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	assert.NilError(t, replay(t, jsonl.New(&out)))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	assert.Equal(t, len(lines), 12)
	kinds := map[string]int{}
	for _, line := range lines {
		var object struct{ Type, Schema string }
		assert.NilError(t, json.Unmarshal([]byte(line), &object))
		kinds[object.Type]++
	}
	assert.DeepEqual(t, kinds, map[string]int{"run": 1, "started": 5, "case": 5, "done": 1})
	assert.Check(t, strings.HasPrefix(lines[0], `{"type":"run","schema":"deadwire.lines/1"`))
	assert.Check(t, strings.HasPrefix(lines[11], `{"type":"done","verdict":"fail","seed":"0x5eed1a2b"`))
}

func TestALostLineEndsTheStream(t *testing.T) {
	t.Parallel()
	w := &failing{after: 2}
	err := replay(t, jsonl.New(w))
	assert.ErrorIs(t, err, errDisk)
	assert.Equal(t, w.lines, 3, "it went on after a line was lost")
}

var errDisk = errors.New("no space")

type failing struct{ after, lines int }

func (f *failing) Write(p []byte) (int, error) {
	if f.lines++; f.lines > f.after {
		return 0, errDisk
	}
	return len(p), nil
}
