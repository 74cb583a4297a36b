// Package envelope owns the bounds within which batches may run: the bars that
// trip, the window of fetch outcomes, and the governor that slows before a bar is
// reached. It is pure: clock, samples and sleep come from outside, and it stores
// nothing (package ledger keeps the trips). A signal that cannot be read skips its
// bar and is never an error.
package envelope

import "fmt"

// The bars, as stored with a trip, in the order in which they are looked at.
const (
	Lockout  = "google_lockout"
	HostLoad = "host_load"
	RSS      = "rss"
	Fetches  = "fetch_failure_rate"
)

// Bars says where each bar lies; a zero switches that bar off. A lockout always trips.
type Bars struct {
	// Load is the highest 1-minute load average that does not trip.
	Load float64
	// RSS is the most resident memory of one of our processes, in bytes.
	RSS int64
	// Failures is the highest share of failed fetches, 0 to 1.
	Failures float64
	// Outcomes is how many fetches must have been seen before their share counts, so
	// that one failure in a fresh process is not a rate.
	Outcomes int
}

// Sample is what was measured for one dispatch. A zero Load or RSS was not readable.
type Sample struct {
	Lockout       bool
	Load          float64
	RSS           int64
	Failed, Total int
}

// Breach is a bar that was crossed, and by what.
type Breach struct {
	Bar    string
	Detail map[string]any
}

func (b *Breach) String() string { return fmt.Sprintf("%s %v", b.Bar, b.Detail) }

// Judge returns the first bar that the sample crosses, nil for none. Equal to the
// bar does not trip.
func (b Bars) Judge(s Sample) *Breach {
	share := 0.0
	if s.Total > 0 {
		share = float64(s.Failed) / float64(s.Total)
	}
	switch {
	case s.Lockout:
		return &Breach{Lockout, map[string]any{"answer": 403}}
	case b.Load > 0 && s.Load > b.Load:
		return &Breach{HostLoad, map[string]any{"load": s.Load, "bar": b.Load}}
	case b.RSS > 0 && s.RSS > b.RSS:
		return &Breach{RSS, map[string]any{"bytes": s.RSS, "bar": b.RSS}}
	case b.Failures > 0 && s.Total >= max(b.Outcomes, 1) && share > b.Failures:
		return &Breach{Fetches, map[string]any{"failed": s.Failed, "of": s.Total, "bar": b.Failures}}
	}
	return nil
}

// windowMax is how many fetch outcomes are remembered.
const windowMax = 500

// Window is the outcomes of the last fetches of this process, over all batches.
// A source that asks us to slow down is no outcome: it must not be added.
type Window struct {
	failed [windowMax]bool
	next   int
	total  int
	count  int
}

// Add remembers one outcome and forgets the oldest beyond five hundred.
func (w *Window) Add(failed bool) {
	if w.total == windowMax && w.failed[w.next] {
		w.count--
	}
	w.failed[w.next] = failed
	if failed {
		w.count++
	}
	w.next = (w.next + 1) % windowMax
	w.total = min(w.total+1, windowMax)
}

// Counts returns how many of how many remembered fetches failed.
func (w *Window) Counts() (failed, total int) { return w.count, w.total }
