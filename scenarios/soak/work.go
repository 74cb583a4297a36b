package soak

import (
	"fmt"
	"iter"

	"deadwire/faults/schedule"
)

// Round is one round: its faults and what they meet.
type Round struct {
	N      int
	Work   Work
	Faults []schedule.Entry
	// Once leaves out the run that resumes after healing.
	Once bool
	// Program takes the place of conveyor; nil for conveyor, to which alone Work applies.
	Program *Program
}

// Program is a user's own program, run through the tap once in a round and once
// more after healing, and what it must come to.
type Program struct {
	Command []string
	Check   string // SQL that must return no rows in the end
	Expect  string // regular expression that its output must match in the end
	Forbid  string // regular expression that its output may never match
}

// Work is what the subject is given to do in a round.
type Work struct {
	Cards, Workers, Batch int
	Seed                  string // of the catalogue
	Redo                  bool   // all was done once before, and is done again
	Dispatchers           int    // at work at once
}

// Nth returns round n of a soak: a pure function of its arguments.
func Nth(seed string, p Policy, n int) Round {
	p = p.withDefaults()
	return Round{
		Program: p.Program,
		N:       n, Faults: schedule.Nth(seed, p.Schedule, n).Faults,
		Work: Work{
			Cards: p.Cards, Workers: p.Schedule.Workers, Batch: max(1, p.Cards/batches),
			Seed: fmt.Sprintf("soak-%d", n%p.Catalogues), Redo: p.Redo > 0 && n%p.Redo == 0,
			Dispatchers: 1 + schedule.Source(seed, "dispatchers", n).IntN(p.Dispatchers),
		},
	}
}

// String says the round's size in a few words.
func (r Round) String() string {
	if r.Program != nil {
		return fmt.Sprintf("%d faults%s", len(r.Faults), map[bool]string{true: ", not resumed"}[r.Once])
	}
	text := fmt.Sprintf("%d faults, %d cards in batches of %d, %d workers", len(r.Faults), r.Work.Cards, r.Work.Batch, r.Work.Workers)
	if r.Work.Dispatchers > 1 {
		text += fmt.Sprintf(", %d dispatchers", r.Work.Dispatchers)
	}
	if r.Work.Redo {
		text += ", done again"
	}
	if r.Once {
		text += ", not resumed"
	}
	return text
}

// smaller yields rounds that are strictly simpler, those first that save most: they
// are fewer runs, fewer faults, faults with simpler parameters, less work.
func (r Round) smaller() iter.Seq[Round] {
	return func(yield func(Round) bool) {
		if !r.Once {
			once := r
			once.Once = true
			if !yield(once) {
				return
			}
		}
		for entries := range schedule.Shrink(r.Faults) {
			fewer := r
			fewer.Faults = entries
			if !yield(fewer) {
				return
			}
		}
		if r.Program != nil {
			return
		}
		for _, work := range r.Work.smaller() {
			less := r
			less.Work = work
			if !yield(less) {
				return
			}
		}
	}
}

func (w Work) smaller() []Work {
	var out []Work
	add := func(change func(*Work)) {
		less := w
		change(&less)
		less.Batch = min(less.Batch, less.Cards)
		out = append(out, less)
	}
	if w.Redo {
		add(func(l *Work) { l.Redo = false })
	}
	for _, cards := range fewer(w.Cards) {
		add(func(l *Work) { l.Cards = cards })
	}
	for _, dispatchers := range fewer(w.Dispatchers) {
		add(func(l *Work) { l.Dispatchers = dispatchers })
	}
	for _, workers := range fewer(w.Workers) {
		add(func(l *Work) { l.Workers = workers })
	}
	if w.Batch < w.Cards {
		add(func(l *Work) { l.Batch = l.Cards })
	}
	return out
}

// fewer returns smaller numbers to try, the smallest first.
func fewer(n int) []int {
	var out []int
	for _, m := range []int{1, n / 2, n - max(1, n/4)} {
		if m >= 1 && m < n && (len(out) == 0 || out[len(out)-1] < m) {
			out = append(out, m)
		}
	}
	return out
}
