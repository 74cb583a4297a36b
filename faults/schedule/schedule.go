package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"deadwire/faults"
)

// Entry is one fault and when it is injected.
type Entry struct {
	Fault faults.Fault
	When  faults.Trigger
}

// MarshalJSON writes the entry as a scenario's list of faults has it.
func (e Entry) MarshalJSON() ([]byte, error) {
	out := map[string]any{e.Fault.Name(): e.Fault}
	if !e.When.IsZero() {
		out["when"] = e.When
	}
	return json.Marshal(out)
}

// Round is the faults of one round.
type Round struct {
	N      int     `json:"n"` // from 1
	Faults []Entry `json:"faults"`
}

// Schedule is what a seed means under a policy.
type Schedule struct {
	Seed   string  `json:"seed"`
	Rounds []Round `json:"rounds"`
}

// Source returns the random numbers of one purpose: a new draw for one purpose
// moves nothing in another. Any text is a seed, also a 40-digit revision.
func Source(seed string, purpose ...any) *rand.Rand {
	sum := sha256.Sum256([]byte(seed + "\x00" + fmt.Sprintln(purpose...)))
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])))
}

// Plan returns the first rounds of a seed. It is pure, and a round does not
// depend on how many are asked for.
func Plan(seed string, p Policy, rounds int) Schedule {
	s := Schedule{Seed: seed}
	for n := range rounds {
		s.Rounds = append(s.Rounds, Nth(seed, p, n+1))
	}
	return s
}

// Nth returns one round, counted from 1.
func Nth(seed string, p Policy, n int) Round {
	p = p.withDefaults()
	on := swarm(p, Source(seed, "swarm", n))
	r := Source(seed, "faults", n)
	round := Round{N: n}
	taken := map[string]bool{}
	for range 1 + r.IntN(p.FaultsMax) {
		d, ok := weighted(r, on, taken)
		if !ok {
			break
		}
		taken[d.place] = d.place != ""
		round.Faults = append(round.Faults, d.make(r, p)...)
	}
	return round
}

// swarm switches about half of the possible kinds off, but never all.
func swarm(p Policy, r *rand.Rand) []draw {
	all := p.possible()
	if !*p.Swarm {
		return all
	}
	var on []draw
	for _, d := range all {
		if r.IntN(2) == 0 && d.weight > 0 {
			on = append(on, d)
		}
	}
	if len(on) == 0 {
		return all
	}
	return on
}

func weighted(r *rand.Rand, from []draw, taken map[string]bool) (draw, bool) {
	from = slices.DeleteFunc(slices.Clone(from), func(d draw) bool { return taken[d.place] })
	total := 0
	for _, d := range from {
		total += d.weight
	}
	if total == 0 {
		return draw{}, false
	}
	at := r.IntN(total)
	for _, d := range from {
		if at -= d.weight; at < 0 {
			return d, true
		}
	}
	panic("schedule: the weights do not add up")
}

// Shrink yields ever smaller variants of a round's faults, the smallest first:
// none at all, each half, all but one, and last the same faults with simpler
// parameters. The caller keeps a variant that still fails and asks again.
func Shrink(entries []Entry) iter.Seq[[]Entry] {
	return func(yield func([]Entry) bool) {
		n := len(entries)
		if n == 0 {
			return
		}
		candidates := [][]Entry{{}}
		if n > 3 {
			candidates = append(candidates, entries[:n/2], entries[n/2:])
		}
		for i := range entries {
			if n > 1 {
				candidates = append(candidates, slices.Delete(slices.Clone(entries), i, i+1))
			}
		}
		for i, e := range entries {
			for _, simple := range simpler(e) {
				variant := slices.Clone(entries)
				variant[i] = simple
				candidates = append(candidates, variant)
			}
		}
		for _, c := range candidates {
			if !yield(c) {
				return
			}
		}
	}
}
