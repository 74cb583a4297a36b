package soak

import (
	"regexp"
	"strings"

	"deadwire/harness/report"
)

var (
	// particular is what differs between two runs with the same failure.
	particular = regexp.MustCompile(`[0-9]+|"[^"]*"|\([^)]*\)`)
	number     = regexp.MustCompile(`[0-9]+`)
	// unexpected are the problems that name a rule.
	unexpectedEnding  = regexp.MustCompile(`^unexpected ending of session [0-9]+ \(([^)]*)\): ([a-z.-]+):`)
	unexpectedFinding = regexp.MustCompile(`^unexpected finding ([a-z.-]+):`)
)

// signature returns what tells a case's failure from others: the broken promises and
// the rules that nobody expected, and only where there are none how it ended.
func signature(c report.Case) []string {
	var telling []string
	for _, p := range c.Problems {
		if sign, specific := signOf(p); specific {
			telling = append(telling, sign)
		}
	}
	if len(telling) > 0 {
		return unique(telling)
	}
	return signs(c)
}

// signs returns all that was wrong with a case, without numbers, names and words
// that differ from run to run.
func signs(c report.Case) []string {
	var all []string
	for _, p := range c.Problems {
		if sign, _ := signOf(p); sign != "" {
			all = append(all, sign)
		}
	}
	return unique(all)
}

// signOf reduces a problem to what comes again; "" when it is none of the subject's.
func signOf(problem string) (sign string, specific bool) {
	problem = strings.TrimPrefix(problem, "resume: ")
	if m := unexpectedEnding.FindStringSubmatch(problem); m != nil {
		return m[2] + " of " + number.ReplaceAllString(m[1], "#"), true
	}
	if m := unexpectedFinding.FindStringSubmatch(problem); m != nil {
		return m[1], true
	}
	words, _, _ := strings.Cut(problem, ":")
	switch {
	case strings.HasPrefix(problem, "fault "): // it did not act
		return "", false
	case strings.HasPrefix(problem, "the subject "), strings.HasPrefix(problem, "the ledger has "):
		return particular.ReplaceAllString(words, ""), false
	}
	return particular.ReplaceAllString(words, ""), true
}

// overlap reports whether two lists share a word.
func overlap(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			if x == y {
				return true
			}
		}
	}
	return false
}
