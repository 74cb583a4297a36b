package consensus_test

import (
	"fmt"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"deadwire/pipeline/consensus"
)

func ballot(entries ...any) (votes []consensus.Vote) {
	for i := 0; i < len(entries); i += 3 {
		votes = append(votes, consensus.Vote{Card: 1, Agent: entries[i].(string), Source: entries[i+1].(string), Printing: int64(entries[i+2].(int))})
	}
	return votes
}

func TestResolve(t *testing.T) {
	t.Parallel()
	unresolved := consensus.Outcome{Status: consensus.Unresolved}
	resolved := consensus.Outcome{Status: consensus.Resolved, Printing: 7}
	for name, c := range map[string]struct {
		votes []consensus.Vote
		want  consensus.Outcome
	}{
		"nobody":                     {nil, unresolved},
		"one person":                 {ballot("a", "user", 7), unresolved},
		"one person, two machines":   {ballot("a", "user", 7, "k-v1", "ocr", 7, "i-v2", "deduction", 7), resolved},
		"one person, one machine":    {ballot("a", "user", 7, "k-v1", "ocr", 7), unresolved},
		"an admin":                   {ballot("a", "admin", 7), resolved},
		"two people":                 {ballot("a", "user", 7, "b", "user", 7), resolved},
		"two people, no match":       {ballot("a", "user", 0, "b", "user", 0), consensus.Outcome{Status: consensus.NoMatch}},
		"people outvote machines":    {ballot("a", "user", 7, "b", "user", 7, "k-v1", "ocr", 8, "i-v2", "deduction", 8), resolved},
		"people disagree":            {ballot("a", "user", 7, "b", "user", 8, "k-v1", "ocr", 7, "i-v2", "deduction", 7), unresolved},
		"machines disagree":          {ballot("a", "user", 7, "k-v1", "ocr", 8, "i-v2", "deduction", 8), unresolved},
		"federated is no person":     {ballot("f", "federated", 7, "g", "federated", 7), unresolved},
		"versions are one family":    {ballot("a", "user", 7, "k-v1", "ocr", 7, "k-v2", "ocr", 7), unresolved},
		"contradiction is withheld":  {ballot("a", "user", 7, "k-v1", "ocr", 7, "i-v2", "deduction", 7, "i-v2", "deduction", 8), unresolved},
		"implicit votes have a cap":  {ballot("a", "user", 7, "w", "implicit", 7, "x", "implicit", 7, "y", "implicit", 7, "z", "implicit", 7, "q", "implicit", 7), resolved},
		"a share below three fifths": {ballot("a", "user", 7, "b", "user", 7, "c", "user", 8, "d", "user", 9), unresolved},
	} {
		t.Run(name, func(t *testing.T) { assert.DeepEqual(t, consensus.Resolve(c.votes), c.want) })
	}
}

func TestZeroWeightCohortCountsNothing(t *testing.T) {
	t.Parallel()
	votes := ballot("a", "user", 7, "k-v1", "ocr", 7, "i-v2", "deduction", 7)
	votes[2].Run = "deductive-backfill-v1/20260714-ratified-zero-weight"
	assert.Equal(t, consensus.Resolve(votes).Status, consensus.Unresolved)
}

func TestMachinesAloneNeverSettleAndOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sources := []string{"ocr", "deduction", "implicit", "federated", "user"}
		people := rapid.Bool().Draw(t, "people")
		if !people {
			sources = sources[:4]
		}
		var votes []consensus.Vote
		for i := range rapid.IntRange(0, 40).Draw(t, "votes") {
			votes = append(votes, consensus.Vote{
				Card: 1, Agent: fmt.Sprintf("agent%d-v1", i), Source: rapid.SampledFrom(sources).Draw(t, "source"),
				Printing: rapid.Int64Range(0, 3).Draw(t, "printing"),
			})
		}
		outcome := consensus.Resolve(votes)
		if !people && outcome.Status != consensus.Unresolved {
			t.Fatalf("machines settled %v: %v", outcome, votes)
		}
		slices.Reverse(votes)
		if again := consensus.Resolve(votes); again != outcome {
			t.Fatalf("%v, and in another order %v", outcome, again)
		}
	})
}
