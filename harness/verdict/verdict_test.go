package verdict_test

import (
	"encoding/json"
	"testing"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"deadwire/harness/verdict"
)

var (
	each   = rapid.SampledFrom([]verdict.Verdict{verdict.Skip, verdict.Pass, verdict.Undetermined, verdict.Fail})
	anySet = rapid.SliceOfN(each, 0, 8)
)

func TestMergeOrder(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		parts []verdict.Verdict
		want  verdict.Verdict
	}{
		{"nothing was judged", nil, verdict.Skip},
		{"skip is neutral", []verdict.Verdict{verdict.Skip, verdict.Pass, verdict.Skip}, verdict.Pass},
		{"undetermined beats pass", []verdict.Verdict{verdict.Pass, verdict.Undetermined, verdict.Pass}, verdict.Undetermined},
		{"fail beats undetermined", []verdict.Verdict{verdict.Undetermined, verdict.Fail, verdict.Undetermined}, verdict.Fail},
		{"skips alone", []verdict.Verdict{verdict.Skip, verdict.Skip}, verdict.Skip},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, verdict.Merge(test.parts...), test.want)
		})
	}
}

func TestMergeDoesNotDependOnOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		vs := anySet.Draw(t, "verdicts")
		assert.Equal(t, verdict.Merge(rapid.Permutation(vs).Draw(t, "permuted")...), verdict.Merge(vs...))
	})
}

func TestMergeDoesNotDependOnGrouping(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anySet.Draw(t, "a"), anySet.Draw(t, "b")
		whole := verdict.Merge(append(append([]verdict.Verdict{}, a...), b...)...)
		assert.Equal(t, verdict.Merge(verdict.Merge(a...), verdict.Merge(b...)), whole)
	})
}

func TestMergeTakesTheSameTwiceAsOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		vs := anySet.Draw(t, "verdicts")
		once := verdict.Merge(vs...)
		assert.Equal(t, verdict.Merge(append(vs, vs...)...), once)
		assert.Equal(t, verdict.Merge(once, once), once)
		assert.Equal(t, verdict.Merge(once, verdict.Skip), once)
	})
}

func TestTotalsAgreeWithMerge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		vs := anySet.Draw(t, "verdicts")
		var totals verdict.Totals
		for _, v := range vs {
			totals.Add(v)
		}
		assert.Equal(t, totals.Count(), len(vs))
		assert.Equal(t, totals.Verdict(), verdict.Merge(vs...))
	})
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		totals verdict.Totals
		want   int
	}{
		{"nothing selected", verdict.Totals{}, verdict.ExitNothing},
		{"all as expected", verdict.Totals{Pass: 3}, verdict.ExitPass},
		{"passes and skips", verdict.Totals{Pass: 1, Skip: 2}, verdict.ExitPass},
		{"skips alone", verdict.Totals{Skip: 2}, verdict.ExitPass},
		{"one undetermined", verdict.Totals{Pass: 9, Undetermined: 1}, verdict.ExitUndetermined},
		{"one failed", verdict.Totals{Pass: 9, Undetermined: 1, Fail: 1}, verdict.ExitFail},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.totals.ExitCode(), test.want)
		})
	}
}

// The numbers are a contract with scripts: design section 13.
func TestExitCodesAreTheContractsNumbers(t *testing.T) {
	t.Parallel()
	assert.DeepEqual(t, []int{
		verdict.ExitPass, verdict.ExitFail, verdict.ExitUsage, verdict.ExitUndetermined,
		verdict.ExitEnvironment, verdict.ExitNothing, verdict.ExitBug, verdict.ExitInterrupted,
	}, []int{0, 1, 2, 3, 4, 5, 70, 130})
}

func TestAddRefusesAWordThatIsNoVerdict(t *testing.T) {
	t.Parallel()
	defer func() { assert.Equal(t, recover(), `verdict: unknown verdict "maybe"`) }()
	var totals verdict.Totals
	totals.Add("maybe")
}

func TestTotalsInJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(verdict.Totals{Pass: 1, Fail: 2, Undetermined: 3, Skip: 4})
	assert.NilError(t, err)
	assert.Equal(t, string(text), `{"pass":1,"fail":2,"undetermined":3,"skip":4}`)
}
