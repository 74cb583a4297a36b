// Package verdict is the vocabulary of judgement: four verdicts, the one order
// in which they are merged, and the exit code that a set of them becomes.
package verdict

import "fmt"

// Verdict is the judgement of a case.
type Verdict string

// The four verdicts. Fail beats Undetermined beats Pass; Skip is neutral.
const (
	Skip         Verdict = "skip"
	Pass         Verdict = "pass"
	Undetermined Verdict = "undetermined"
	Fail         Verdict = "fail"
)

// exit codes of the command line contract
const (
	ExitPass         = 0
	ExitFail         = 1
	ExitUsage        = 2
	ExitUndetermined = 3
	ExitEnvironment  = 4
	ExitNothing      = 5
	ExitBug          = 70
	ExitInterrupted  = 130
)

func (v Verdict) rank() int {
	switch v {
	case Fail:
		return 3
	case Undetermined:
		return 2
	case Pass:
		return 1
	default:
		return 0
	}
}

// Merge returns the verdict of a whole whose parts were judged vs; Skip for none.
func Merge(vs ...Verdict) Verdict {
	whole := Skip
	for _, v := range vs {
		if v.rank() > whole.rank() {
			whole = v
		}
	}
	return whole
}

// Totals counts cases by verdict.
type Totals struct {
	Pass         int `json:"pass"`
	Fail         int `json:"fail"`
	Undetermined int `json:"undetermined"`
	Skip         int `json:"skip"`
}

// Add counts one more case.
func (t *Totals) Add(v Verdict) {
	switch v {
	case Pass:
		t.Pass++
	case Fail:
		t.Fail++
	case Undetermined:
		t.Undetermined++
	case Skip:
		t.Skip++
	default:
		panic(fmt.Sprintf("verdict: unknown verdict %q", string(v)))
	}
}

// Count returns how many cases were counted.
func (t Totals) Count() int { return t.Pass + t.Fail + t.Undetermined + t.Skip }

// Verdict returns the merged verdict of all counted cases.
func (t Totals) Verdict() Verdict {
	switch {
	case t.Fail > 0:
		return Fail
	case t.Undetermined > 0:
		return Undetermined
	case t.Pass > 0:
		return Pass
	default:
		return Skip
	}
}

// ExitCode maps the totals to the process's exit code: skips alone are a
// success, since each one has said its reason.
func (t Totals) ExitCode() int {
	switch {
	case t.Count() == 0:
		return ExitNothing
	case t.Fail > 0:
		return ExitFail
	case t.Undetermined > 0:
		return ExitUndetermined
	default:
		return ExitPass
	}
}
