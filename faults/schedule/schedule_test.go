package schedule_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"deadwire/faults/catalog"
	"deadwire/faults/schedule"
)

const revision = "0123456789abcdef0123456789abcdef01234567"

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.MarshalIndent(v, "", " ")
	assert.NilError(t, err)
	return string(out) + "\n"
}

func TestASeedMeansTheSameForEver(t *testing.T) {
	t.Parallel()
	for name, seed := range map[string]string{"word": "deadwire", "revision": revision} {
		golden.Assert(t, text(t, schedule.Plan(seed, schedule.Policy{OwnServer: true}, 12)), name+".golden")
	}
}

func TestARoundDoesNotDependOnTheOthers(t *testing.T) {
	t.Parallel()
	plan := schedule.Plan(revision, schedule.Policy{}, 40)
	assert.Equal(t, text(t, plan.Rounds[33]), text(t, schedule.Nth(revision, schedule.Policy{}, 34)))
	assert.Assert(t, text(t, plan.Rounds) != text(t, schedule.Plan("other", schedule.Policy{}, 40).Rounds))
}

func TestImpossibleAndUnwantedKindsAreNeverDrawn(t *testing.T) {
	t.Parallel()
	seen := kinds(schedule.Plan("s", schedule.Policy{Weights: map[string]int{"fork": 0}}, 600))
	assert.Assert(t, !slices.Contains(seen, "backend.crash") && !slices.Contains(seen, "backend.restart"), "%v", seen)
	assert.Assert(t, !slices.Contains(seen, "fork"), "%v", seen)
	assert.Equal(t, len(seen), len(schedule.Kinds())-3)
}

func TestEveryKindOfTheCatalogueIsDrawn(t *testing.T) {
	t.Parallel()
	seen := kinds(schedule.Plan("s", schedule.Policy{OwnServer: true}, 600))
	assert.DeepEqual(t, seen, schedule.Kinds())
	for _, name := range schedule.Kinds() {
		assert.Assert(t, slices.Contains(catalog.Names(), name))
	}
}

func kinds(s schedule.Schedule) []string {
	var names []string
	for _, r := range s.Rounds {
		for _, e := range r.Faults {
			names = append(names, e.Fault.Name())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestPolicyErrorsNameTheNearestWord(t *testing.T) {
	t.Parallel()
	err := schedule.Policy{Weights: map[string]int{"network.cute": 1}}.Check()
	assert.ErrorContains(t, err, `did you mean "network.cut"`)
	assert.ErrorContains(t, schedule.Policy{Weights: map[string]int{"fork": -1}}.Check(), "negative")
	none := map[string]int{}
	for _, k := range schedule.Kinds() {
		none[k] = 0
	}
	assert.ErrorContains(t, schedule.Policy{Weights: none}.Check(), "no kind is left")
	assert.NilError(t, schedule.Policy{}.Check())
}

// A failure that needs one certain fault is shrunk to that fault alone, and
// shrinking ends.
func TestShrinkingEndsAtTheCause(t *testing.T) {
	t.Parallel()
	for _, round := range schedule.Plan("shrink", schedule.Policy{OwnServer: true, FaultsMax: 8}, 200).Rounds {
		cause := round.Faults[len(round.Faults)-1].Fault.Name()
		got, steps := round.Faults, 0
		for smaller := true; smaller; steps++ {
			smaller = false
			for c := range schedule.Shrink(got) {
				if slices.ContainsFunc(c, func(e schedule.Entry) bool { return e.Fault.Name() == cause }) {
					got, smaller = c, true
					break
				}
			}
			assert.Assert(t, steps < 100)
		}
		assert.Equal(t, len(got), 1)
		assert.Equal(t, got[0].Fault.Name(), cause)
		assert.Assert(t, !strings.Contains(text(t, got), `"skip"`))
	}
}
