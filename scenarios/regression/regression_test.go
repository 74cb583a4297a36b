package regression_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"deadwire/scenarios"
)

// Every file is a scenario that loads, and nothing else is shipped.
func TestEveryFileIsAScenarioOfItsName(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.yaml")
	assert.NilError(t, err)
	var names []string
	for _, file := range files {
		s, err := scenarios.ReadFile(file)
		assert.NilError(t, err)
		assert.Check(t, is.Equal(s.Name+".yaml", file))
		names = append(names, s.Name)
	}
	all, err := scenarios.Builtin()
	assert.NilError(t, err)
	var shipped []string
	for _, s := range all {
		shipped = append(shipped, s.Name)
	}
	slices.Sort(names)
	assert.DeepEqual(t, names, shipped)
}

// A broken case without its fixed counterpart proves half of the story.
func TestBrokenAndFixedComeInPairs(t *testing.T) {
	t.Parallel()
	all, err := scenarios.Builtin()
	assert.NilError(t, err)
	for _, s := range all {
		var broken, fixed bool
		for _, c := range s.Cases {
			broken = broken || strings.HasPrefix(c.Name, "broken")
			fixed = fixed || strings.HasPrefix(c.Name, "fixed")
		}
		assert.Check(t, is.Equal(broken, fixed), s.Name)
	}
}
