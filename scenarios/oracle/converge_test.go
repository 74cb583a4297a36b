package oracle_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"deadwire/scenarios/oracle"
)

func TestConverged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*oracle.Snapshot)
		says   []string
	}{
		{"equal", func(*oracle.Snapshot) {}, nil},
		{"in other portions: runs, scans and ledger differ", func(s *oracle.Snapshot) {
			s.Evidence[0].RunID, s.Votes[0].RunID = "r2", "r2"
			s.Scans, s.Ledger = nil, append(s.Ledger, oracle.Entry{RunID: "r2", Status: "failed"})
		}, nil},
		{"in another order", func(s *oracle.Snapshot) {
			s.Evidence[0], s.Evidence[1] = s.Evidence[1], s.Evidence[0]
			s.Votes[0], s.Votes[2] = s.Votes[2], s.Votes[0]
		}, nil},
		{"evidence is lost", func(s *oracle.Snapshot) { s.Evidence = s.Evidence[1:] }, []string{"lost: evidence of a: hash 1, columns x"}},
		{"evidence is there twice", func(s *oracle.Snapshot) {
			s.Evidence = append(s.Evidence, s.Evidence[0])
		}, []string{"not in the fault-free run: evidence of a: hash 1, columns x"}},
		{"evidence has other columns", func(s *oracle.Snapshot) { s.Evidence[0].Digest = "z" }, []string{
			"lost: evidence of a: hash 1, columns x", "not in the fault-free run: evidence of a: hash 1, columns z",
		}},
		{"a vote is lost", func(s *oracle.Snapshot) { s.Votes = s.Votes[:2] }, []string{"lost: vote of somebody on b: printing p2"}},
		{"a vote is there twice", func(s *oracle.Snapshot) {
			s.Votes = append(s.Votes, s.Votes[0])
		}, []string{"not in the fault-free run: vote of ocr-v1 on a"}},
		{"a vote has another weight", func(s *oracle.Snapshot) { s.Votes[0].Confidence = 0.5 }, []string{"confidence 0;", "confidence 0.5"}},
		{"a status differs", func(s *oracle.Snapshot) { s.Cards[1].Status = "unresolved" }, []string{"lost: card b: resolved", "not in the fault-free run: card b: unresolved"}},
		{"nothing was done", func(s *oracle.Snapshot) { *s = oracle.Snapshot{} }, []string{"lost: ", "and 5 more"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := whole().Snapshot
			test.change(&got)
			findings := oracle.Converged(got, whole().Snapshot)
			if test.says == nil {
				assert.Equal(t, len(findings), 0, "%+v", findings)
				return
			}
			assert.Equal(t, len(findings), 1)
			assert.Equal(t, findings[0].Invariant, oracle.Convergence)
			for _, words := range test.says {
				assert.Assert(t, strings.Contains(findings[0].Message, words), findings[0].Message)
			}
		})
	}
}

// A multiset equals itself in any order, and never itself with one thing more.
func TestConvergedCountsEveryRow(t *testing.T) {
	t.Parallel()
	row := rapid.Custom(func(t *rapid.T) oracle.Evidence {
		return oracle.Evidence{Card: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "card"), Hash: rapid.Int64Range(0, 2).Draw(t, "hash")}
	})
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(row, 0, 8).Draw(t, "rows")
		want := oracle.Snapshot{Evidence: rows}
		assert.Equal(t, len(oracle.Converged(oracle.Snapshot{Evidence: rapid.Permutation(rows).Draw(t, "permuted")}, want)), 0)
		more := oracle.Snapshot{Evidence: append(append([]oracle.Evidence{}, rows...), row.Draw(t, "one more"))}
		assert.Equal(t, len(oracle.Converged(more, want)), 1, "one too many")
		assert.Equal(t, len(oracle.Converged(want, more)), 1, "one lost")
	})
}
