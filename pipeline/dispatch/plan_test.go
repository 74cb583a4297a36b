package dispatch_test

import (
	"encoding/json"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/deduce"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// node is one step of a plan, as EXPLAIN shows it.
type node struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Removed  float64 `json:"Rows Removed by Filter"`
	Plans    []node  `json:"Plans"`
}

// touched is how many rows of a relation the plan read, filtered ones too.
func (n node) touched(relation string) float64 {
	sum := 0.0
	if n.Relation == relation {
		sum = (n.Rows + n.Removed) * n.Loops
	}
	for _, below := range n.Plans {
		sum += below.touched(relation)
	}
	return sum
}

func TestSelectionReadsNoMoreThanItsChunk(t *testing.T) {
	t.Parallel()
	r := setup(t, 20000)
	r.exec(`insert into image_evidence (card_id, content_hash, extractor_versions, run_id)
		select id, content_phash, '{"x": "1"}', 'run' from card where id <= 10000`)
	r.exec("analyze card")
	r.exec("analyze image_evidence")
	for name, c := range map[string]struct {
		statement string
		which     any
	}{
		"at the start":   {schema.Select, int64(0)},
		"in the middle":  {schema.Select, int64(9900)},
		"near the end":   {schema.Select, int64(19900)},
		"named cards":    {schema.SelectCards, []int64{5, 7777, 15000}},
		"beyond the end": {schema.Select, int64(20000)},
	} {
		raw, err := session.Value[json.RawMessage](t.Context(), r.worker, "explain (analyze, format json) "+c.statement,
			c.which, 250, r.cfg.Versions, deduce.JoinKeyAgent, 3)
		assert.NilError(t, err, name)
		var plans []struct {
			Plan node `json:"Plan"`
		}
		assert.NilError(t, json.Unmarshal(raw, &plans), name)
		plan := plans[0].Plan
		for _, relation := range []string{"card", "image_evidence", "card_printing_tag", "card_scan_log"} {
			assert.Assert(t, plan.touched(relation) <= 4*250, "%s: %g rows of %s in %s", name, plan.touched(relation), relation, raw)
		}
	}
}
