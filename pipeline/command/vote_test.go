package command_test

import (
	"encoding/json"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/command"
)

func TestAnAdministratorsVoteSettlesTheGroupAndCanBeTakenBack(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.resume()
	card := r.text("select c.identifier from card c join card t on t.md5_checksum = c.md5_checksum and t.id <> c.id limit 1")
	slot := r.text("select set_code || '/' || collector_number from printing order by id limit 1")
	var verdict struct {
		Status         string
		Group, Changed int
	}
	vote := func(more ...string) {
		t.Helper()
		out := r.ok(append([]string{"vote", card, "--as", "eve", "--json"}, more...)...)
		assert.NilError(t, json.Unmarshal([]byte(out), &verdict))
	}
	vote("--printing", slot, "--admin")
	assert.Equal(t, verdict.Status, "resolved")
	assert.Assert(t, verdict.Group >= 2)
	assert.Equal(t, verdict.Changed, verdict.Group)
	r.ok("check")
	vote("--withdraw")
	assert.Equal(t, verdict.Status, "unresolved")
	assert.Equal(t, r.count("card where printing_tag_status <> 'unresolved'"), 0)
	for _, args := range [][]string{{"vote", card}, {"vote", card, "--no-match", "--withdraw"}, {"vote", "nobody", "--no-match"}} {
		assert.Equal(t, r.start("", args...).wait(), command.CodeError, "%v", args)
	}
	r.assertConverged()
}

func TestPropagateAgainChangesNothing(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.stream("", "--run-id", "pass")
	assert.Equal(t, p.wait(), 0, p.stderr.String())
	r.ok("propagate", "--run-id", "pass")
	var done struct{ Votes, Violations int }
	assert.NilError(t, json.Unmarshal([]byte(r.ok("propagate", "--run-id", "pass", "--json")), &done))
	assert.Equal(t, done.Votes, 0)
	assert.Equal(t, done.Violations, 0)
	r.assertConverged()
}

func TestProbeMeasuresAndKeepsNothing(t *testing.T) {
	t.Parallel()
	r := setup(t)
	var p struct {
		Cards     int
		FetchMS   float64 `json:"fetch_ms"`
		MeasureMS float64 `json:"measure_ms"`
		StoreMS   float64 `json:"store_ms"`
	}
	assert.NilError(t, json.Unmarshal([]byte(r.ok("probe", "--source", r.catalog, "--cards", "6", "--json")), &p))
	assert.Equal(t, p.Cards, 6)
	assert.Assert(t, p.FetchMS > 0 && p.MeasureMS > 0 && p.StoreMS > 0, "%+v", p)
	assert.Equal(t, r.count("image_evidence")+r.count("card_scan_log")+r.count("stage_c_claim"), 0)
}
