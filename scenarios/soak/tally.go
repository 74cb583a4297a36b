package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"deadwire/harness/report"
	"deadwire/harness/verdict"
	"deadwire/scenarios/oracle"
)

// Tally is what the rounds of a soak came to. It is bounded, however many they are.
type Tally struct {
	Rounds verdict.Totals `json:"rounds"`
	Lost   int            `json:"lost"`  // rounds that did not converge
	Bites  map[string]int `json:"bites"` // faults that were seen to act, by kind

	// Journal is the size of the largest journal on disk, in bytes.
	Journal int64 `json:"journal_bytes"`

	recovery    histogram
	memory      series // our own resident memory, in bytes, after each round
	subject     series // the most that a conveyor's first process had, in each round
	descriptors series // that we have open, after each round
	goroutines  series
}

func newTally() *Tally { return &Tally{Bites: map[string]int{}} }

func (t *Tally) add(c report.Case) {
	t.Rounds.Add(c.Verdict)
	for _, name := range c.Faults {
		t.Bites[name]++
	}
	if c.MemoryBytes > 0 {
		t.subject.add(float64(c.MemoryBytes))
	}
	if c.RecoveryMS > 0 {
		t.recovery.add(time.Duration(c.RecoveryMS) * time.Millisecond)
	}
	if slices.ContainsFunc(c.Problems, isLoss) {
		t.Lost++
	}
}

func isLoss(problem string) bool {
	return oracle.IsDivergence(problem)
}

// Number returns a metric by its name in Metrics; times are in seconds.
func (t *Tally) Number(metric string) float64 {
	switch metric {
	case "rounds":
		return float64(t.Rounds.Pass + t.Rounds.Fail + t.Rounds.Undetermined)
	case "failed":
		return float64(t.Rounds.Fail)
	case "weak":
		return float64(t.Rounds.Undetermined)
	case "lost":
		return float64(t.Lost)
	case "bites":
		return float64(t.bitten())
	case "kinds":
		return float64(len(t.Bites))
	case "recovery p50":
		return t.recovery.quantile(0.50).Seconds()
	case "recovery p95":
		return t.recovery.quantile(0.95).Seconds()
	case "recovery max":
		return t.recovery.quantile(1).Seconds()
	case "rss growth":
		return t.memory.growth() * 100
	case "subject rss growth":
		return t.subject.growth() * 100
	case "descriptors leaked":
		return t.descriptors.slope()
	case "goroutines leaked":
		return t.goroutines.slope()
	}
	panic("soak: no such metric: " + metric)
}

func (t *Tally) bitten() int {
	sum := 0
	for n := range maps.Values(t.Bites) {
		sum += n
	}
	return sum
}

// Line says the tally in one line.
func (t *Tally) Line() string {
	return fmt.Sprintf("%d rounds: %d passed, %d failed, %d weak, %d skipped · %d faults of %d kinds · recovery p50 %s p95 %s max %s · rss %.0f MB %+.1f%%",
		t.Rounds.Pass+t.Rounds.Fail+t.Rounds.Undetermined+t.Rounds.Skip, t.Rounds.Pass, t.Rounds.Fail, t.Rounds.Undetermined, t.Rounds.Skip,
		t.bitten(), len(t.Bites), t.recovery.quantile(0.5), t.recovery.quantile(0.95), t.recovery.quantile(1),
		t.memory.last/(1<<20), t.memory.growth()*100)
}

// Details says in a few lines what the tally's one line leaves out: memory and what
// else could leak, and how often each kind of fault was seen to act.
func (t *Tally) Details() string {
	const mb = 1 << 20
	var b strings.Builder
	fmt.Fprintf(&b, "memory      deadwire %.1f MB, slope %+.3f MB a round · subject %.1f MB, slope %+.3f MB a round\n",
		t.memory.last/mb, t.memory.slope()/mb, t.subject.last/mb, t.subject.slope()/mb)
	fmt.Fprintf(&b, "left open   %.0f descriptors, slope %+.3f a round · %.0f goroutines, slope %+.3f a round · largest journal %.1f MB\n",
		t.descriptors.last, t.descriptors.slope(), t.goroutines.last, t.goroutines.slope(), float64(t.Journal)/mb)
	b.WriteString("acted      ")
	for _, kind := range slices.Sorted(maps.Keys(t.Bites)) {
		fmt.Fprintf(&b, " %s %d", kind, t.Bites[kind])
	}
	return b.String() + "\n"
}

// roundsTelling is how many rounds it takes until a slope says something: rounds
// that run side by side blur each sample.
const roundsTelling = 60

// leaks returns what grew with every round.
func (t *Tally) leaks() []string {
	var out []string
	if t.descriptors.taken < roundsTelling {
		return nil
	}
	for what, s := range map[string]*series{"descriptors": &t.descriptors, "goroutines": &t.goroutines} {
		if slope := s.slope(); slope > 0.5 {
			out = append(out, fmt.Sprintf("nothing leaks: deadwire keeps %.2f more %s with each round", slope, what))
		}
	}
	slices.Sort(out)
	return out
}

// histogram counts durations in buckets that grow by a tenth, from 10 ms on: its
// size does not depend on how many it has seen, its error is below 10 %.
type histogram struct {
	counts map[int]int
	total  int
}

const (
	bucketFirst = 10 * time.Millisecond
	bucketGrow  = 1.1
)

func (h *histogram) add(d time.Duration) {
	if h.counts == nil {
		h.counts = map[int]int{}
	}
	bucket, upper := 0, float64(bucketFirst)
	for upper < float64(d) && bucket < 200 {
		bucket, upper = bucket+1, upper*bucketGrow
	}
	h.counts[bucket]++
	h.total++
}

// quantile returns the upper bound of the bucket in which the q-th part lies.
func (h *histogram) quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	seen := 0
	for _, bucket := range slices.Sorted(maps.Keys(h.counts)) {
		seen += h.counts[bucket]
		if float64(seen) >= q*float64(h.total) {
			upper := float64(bucketFirst)
			for range bucket {
				upper *= bucketGrow
			}
			return time.Duration(upper).Round(time.Millisecond)
		}
	}
	return 0
}

// series keeps samples of a slowly changing number, at most seriesMax: when full
// it drops every second one and takes half as many from then on.
type series struct {
	samples []float64
	every   int
	skipped int
	taken   int // samples that were offered
	last    float64
}

const seriesMax = 512

func (s *series) add(v float64) {
	s.last = v
	s.taken++
	s.every = max(s.every, 1)
	if s.skipped++; s.skipped < s.every {
		return
	}
	s.skipped = 0
	s.samples = append(s.samples, v)
	if len(s.samples) < seriesMax {
		return
	}
	kept := s.samples[:0]
	for n := 0; n < len(s.samples); n += 2 {
		kept = append(kept, s.samples[n])
	}
	s.samples, s.every = kept, s.every*2
}

// growth returns by how much the median of the last quarter exceeds that of the
// second: the first is warm-up, in which caches and pools fill.
func (s *series) growth() float64 {
	quarter := len(s.samples) / 4
	if quarter == 0 {
		return 0
	}
	before, after := median(s.samples[quarter:2*quarter]), median(s.samples[len(s.samples)-quarter:])
	if before == 0 {
		return 0
	}
	return after/before - 1
}

// slope returns by how much the number grows from one sample to the next, by least
// squares over all but the first quarter.
func (s *series) slope() float64 {
	values := s.samples[len(s.samples)/4:]
	n := float64(len(values))
	if n < 3 {
		return 0
	}
	var sumX, sumY, sumXY, sumXX float64
	for i, y := range values {
		x := float64(i)
		sumX, sumY, sumXY, sumXX = sumX+x, sumY+y, sumXY+x*y, sumXX+x*x
	}
	return (n*sumXY - sumX*sumY) / (n*sumXX - sumX*sumX) / float64(s.every)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
