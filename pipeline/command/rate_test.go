package command_test

import (
	"testing"

	"gotest.tools/v3/assert"
)

func TestPacedStreamsShareOneRateRowAndLeaveNoSession(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.stream("", "--rate", "20")
	assert.Equal(t, p.wait(), 0, p.stderr.String())
	fetched := p.result()["extracted"].(float64) + p.result()["damaged"].(float64)
	elapsed := p.result()["elapsed_s"].(float64)
	assert.Assert(t, elapsed >= (fetched-1)/20, "%g fetches in %g s", fetched, elapsed)
	assert.Equal(t, r.count("shared_cache where cache_key like 'harvest-rate-cursor:%'"), 1)
	r.assertConverged()
}
