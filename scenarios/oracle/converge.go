package oracle

import (
	"fmt"
	"slices"
	"strings"

	"deadwire/harness/diagnose"
)

// Convergence is the name of the promise that Converged judges.
const Convergence = "converges"

const convergenceSentence = "after healing and resuming, the tables equal those of a fault-free run"

// IsDivergence reports whether a problem of a case is one that Converged found.
func IsDivergence(problem string) bool { return strings.Contains(problem, convergenceSentence) }

// Converged compares what a faulted and resumed run came to with a fault-free
// run of the same workload: evidence, votes and statuses must be equal. Run
// names, times and scan logs may differ, since work was done in other portions.
func Converged(got, want Snapshot) []diagnose.Finding {
	missing, extra := difference(facts(want), facts(got))
	if len(missing)+len(extra) == 0 {
		return nil
	}
	var breaches []string
	for _, m := range missing {
		breaches = append(breaches, "lost: "+m)
	}
	for _, e := range extra {
		breaches = append(breaches, "not in the fault-free run: "+e)
	}
	return []diagnose.Finding{{
		Invariant: Convergence,
		Message:   convergenceSentence + ": " + shorten(breaches),
	}}
}

// facts renders every row that must be the same in the two runs.
func facts(s Snapshot) []string {
	var out []string
	for _, e := range s.Evidence {
		out = append(out, fmt.Sprintf("evidence of %s: hash %d, columns %s", e.Card, e.Hash, e.Digest))
	}
	for _, v := range s.Votes {
		out = append(out, fmt.Sprintf("vote of %s on %s: printing %s, no match %v, confidence %g", v.Agent, v.Card, v.Printing, v.NoMatch, v.Confidence))
	}
	for _, c := range s.Cards {
		out = append(out, fmt.Sprintf("card %s: %s", c.Identifier, c.Status))
	}
	slices.Sort(out)
	return out
}

// difference returns what is only in a and only in b, both of them sorted, with
// repeated entries counted.
func difference(a, b []string) (onlyA, onlyB []string) {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || (len(a) > 0 && a[0] < b[0]):
			onlyA, a = append(onlyA, a[0]), a[1:]
		case len(a) == 0 || b[0] < a[0]:
			onlyB, b = append(onlyB, b[0]), b[1:]
		default:
			a, b = a[1:], b[1:]
		}
	}
	return onlyA, onlyB
}
