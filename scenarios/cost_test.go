package scenarios_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/scenarios"
)

func TestCasesThatWaitLongestCostMost(t *testing.T) {
	t.Parallel()
	all, err := scenarios.Builtin()
	assert.NilError(t, err)
	cost := map[string]int{}
	for _, s := range all {
		for _, c := range s.Cases {
			cost[s.Name+"/"+c.Name] = s.Cost(c)
		}
	}
	order := []string{"link-down/swallowed", "connection-dropped/blackhole-at-commit", "crash-restart/backend-killed", "connection-dropped/fin-at-commit", "slow-network/sliced"}
	for n := 1; n < len(order); n++ {
		assert.Assert(t, cost[order[n-1]] > cost[order[n]], "%s: %d, %s: %d", order[n-1], cost[order[n-1]], order[n], cost[order[n]])
	}
}
