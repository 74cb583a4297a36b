package command_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// poison names a hashed card that the seam "card-kills" crashes over.
func (r *rig) poison() string {
	r.t.Helper()
	return r.text("select identifier from card where content_phash is not null and md5_checksum not in (" +
		"select md5_checksum from card group by 1 having count(*) > 1) order by id offset 5 limit 1")
}

func (r *rig) poisoned(card string, more ...string) *process {
	p := r.command("card-kills", append([]string{"stream", "--source", r.catalog, "--json"}, more...)...)
	p.cmd.Env = append(p.cmd.Env, holdEnv+"_CARD="+card)
	p.run()
	return p
}

func TestCardThatKillsWorkersIsParkedAndThePassGoesOn(t *testing.T) {
	t.Parallel()
	r := setup(t)
	card := r.poison()
	p := r.poisoned(card, "--crashes-max", "10")
	assert.Equal(t, p.wait(), 0, p.stderr.String())
	assert.Equal(t, p.result()["parked"], 1.0)
	assert.Equal(t, p.result()["crashed_batches"], 3.0)
	assert.Equal(t, r.count("stage_c_attempt where parked_at is not null and attempts = 3 and reason like '%out of memory over%'"), 1)
	assert.Equal(t, r.count("card_scan_log where skip_reason = 'poison-card'"), 1)
	assert.Equal(t, r.count("image_evidence"), r.count("card where content_phash is not null")-1)
	assert.Equal(t, r.count("pilot_run_ledger where status = 'failed' and failure_reason like '%out of memory%'"), 3)
	assert.Equal(t, r.resume()["cards"], 0.0, "a parked card is passed by")
	assert.Assert(t, strings.Contains(r.ok("parked", "list"), card))
	r.ok("parked", "release", card)
	assert.Equal(t, r.resume()["extracted"], 1.0)
	assert.Equal(t, r.count("stage_c_attempt"), 0)
	r.assertConverged()
}

func TestAttemptIsCountedEvenWhenTheCoordinatorDiesToo(t *testing.T) {
	t.Parallel()
	r := setup(t)
	card := r.poison()
	for range 3 {
		assert.Equal(t, r.poisoned(card).wait(), 1)
	}
	assert.Equal(t, r.count("stage_c_attempt where attempts = 3 and parked_at is null"), 1)
	p := r.poisoned(card)
	assert.Equal(t, p.wait(), 0, p.stderr.String())
	assert.Equal(t, p.result()["parked"], 1.0)
}
