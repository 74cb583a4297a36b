// Package consensus owns what votes amount to: their weights, their caps, and the
// status of a whole identity group. It casts no votes. A person's vote is
// authoritative: machines alone propose and never settle, whatever their number.
package consensus

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
)

// Statuses of a card.
const (
	Unresolved = "unresolved"
	Resolved   = "resolved"
	NoMatch    = "no_match"
)

const (
	capMachine  = 1.0 // of all machines together, on one outcome
	capImplicit = 1.0
	least       = 2.0 // weight that settles
	leastShare  = 0.6 // of all weight
	humanAlone  = 2.0 // of people's weight, from which machines are not heard
)

// zeroWeight is the run of an early cohort whose votes are kept and count nothing.
const zeroWeight = "deductive-backfill-v1/20260714-ratified-zero-weight"

// Vote is one vote on one card; Printing 0 stands for no match.
type Vote struct {
	Card     int64
	Printing int64
	Agent    string
	Source   string
	Run      string
}

// Human says whether a person cast the vote.
func (v Vote) Human() bool { return v.Source == "user" || v.Source == "admin" }

// Outcome is what votes amount to.
type Outcome struct {
	Status   string
	Printing int64 // 0 unless resolved
}

// weight of a vote, by its source. Confidence is no part of it.
func weight(source string) float64 {
	switch source {
	case "admin":
		return 5
	case "user", "federated":
		return 1
	case "ocr", "deduction":
		return 0.5
	case "implicit":
		return 0.25
	}
	return 0
}

func machine(source string) bool { return source == "ocr" || source == "deduction" }

// tally is the weight on one outcome.
type tally struct {
	printing                         int64
	human, machine, implicit, others float64
}

func (t tally) total(deaf bool) float64 {
	sum := t.human + t.others + min(t.implicit, capImplicit)
	if !deaf {
		sum += min(t.machine, capMachine)
	}
	return sum
}

// Resolve says what the votes of one whole identity group amount to. It is pure, and
// the order of the votes does not matter.
func Resolve(votes []Vote) Outcome {
	tallies := count(voices(votes))
	deaf := machinesUnheard(tallies)
	var top tally
	most, sum := 0.0, 0.0
	for _, t := range tallies {
		total := t.total(deaf)
		sum += total
		if total > most {
			most, top = total, t
		}
	}
	switch {
	case most < least || most < leastShare*sum || top.human == 0:
		return Outcome{Status: Unresolved}
	case top.printing == 0:
		return Outcome{Status: NoMatch}
	}
	return Outcome{Status: Resolved, Printing: top.printing}
}

// machinesUnheard: where people disagree, or enough of them agree, machines are not asked.
func machinesUnheard(tallies []tally) bool {
	backed := 0
	for _, t := range tallies {
		if t.human >= humanAlone {
			return true
		}
		if t.human > 0 {
			backed++
		}
	}
	return backed > 1
}

// voices gives each agent family one voice for the whole group; one that contradicts
// itself has none.
func voices(votes []Vote) []Vote {
	said := map[string]Vote{}
	torn := map[string]bool{}
	for _, v := range votes {
		if v.Run == zeroWeight {
			continue
		}
		family := Family(v.Agent)
		first, heard := said[family]
		torn[family] = torn[family] || heard && first.Printing != v.Printing
		if !heard || weight(v.Source) > weight(first.Source) {
			said[family] = v
		}
	}
	maps.DeleteFunc(said, func(family string, _ Vote) bool { return torn[family] })
	return slices.Collect(maps.Values(said))
}

// count adds up by outcome, in the order of the outcomes.
func count(votes []Vote) []tally {
	by := map[int64]*tally{}
	for _, v := range votes {
		t := by[v.Printing]
		if t == nil {
			t = &tally{printing: v.Printing}
			by[v.Printing] = t
		}
		switch w := weight(v.Source); {
		case v.Human():
			t.human += w
		case machine(v.Source):
			t.machine += w
		case v.Source == "implicit":
			t.implicit += w
		default:
			t.others += w
		}
	}
	tallies := make([]tally, 0, len(by))
	for _, t := range by {
		tallies = append(tallies, *t)
	}
	slices.SortFunc(tallies, func(a, b tally) int { return cmp.Compare(a.printing, b.printing) })
	return tallies
}

var version = regexp.MustCompile(`-v[0-9]+$`)

// Family is what all versions of an agent share.
func Family(agent string) string { return version.ReplaceAllString(agent, "") }
