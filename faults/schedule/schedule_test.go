package schedule_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"deadwire/faults/backend"
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
	never := func(p schedule.Policy, kinds ...string) {
		t.Helper()
		seen := kindsOf(schedule.Plan("s", p, 1500))
		for _, kind := range schedule.Kinds() {
			assert.Equal(t, slices.Contains(seen, kind), !slices.Contains(kinds, kind), kind)
		}
	}
	never(schedule.Policy{Weights: map[string]int{"fork": 0}}, "backend.crash", "backend.restart", "backend.slots", "fork")
	never(schedule.Policy{OwnServer: true, FixedSettings: true}, "backend.read-only", "backend.timeout")
	never(schedule.Policy{OwnServer: true, Program: true}, "backend.cancel", "backend.lock", "fork", "process.cpu", "process.exit", "process.memory",
		"process.orphan", "process.panic", "source.bomb", "source.corrupt", "source.cut", "source.hang", "source.status")
}

func TestALimitThatTheServerHasNotIsNeverDrawn(t *testing.T) {
	t.Parallel()
	only := map[string]int{}
	for _, kind := range schedule.Kinds() {
		only[kind] = 0
	}
	only["backend.timeout"] = 1
	for major, want := range map[int][]string{
		13: {"idle-in-transaction", "statement"},
		15: {"idle-in-transaction", "idle-session", "statement"},
		17: {"idle-in-transaction", "idle-session", "statement", "transaction"},
	} {
		var seen []string
		for _, round := range schedule.Plan("s", schedule.Policy{Weights: only, Major: major}, 100).Rounds {
			for _, e := range round.Faults {
				seen = append(seen, e.Fault.(backend.Timeout).Of)
			}
		}
		slices.Sort(seen)
		assert.DeepEqual(t, slices.Compact(seen), want)
	}
}

func TestEveryKindOfTheCatalogueIsDrawn(t *testing.T) {
	t.Parallel()
	seen := kindsOf(schedule.Plan("s", schedule.Policy{OwnServer: true}, 1500))
	assert.DeepEqual(t, seen, schedule.Kinds())
	for _, name := range schedule.Kinds() {
		assert.Assert(t, slices.Contains(catalog.Names(), name))
	}
}

func kindsOf(s schedule.Schedule) []string {
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
