package soak

import (
	"fmt"
	"maps"
	"slices"
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

	recovery histogram
	memory   series
}

func newTally() *Tally { return &Tally{Bites: map[string]int{}} }

func (t *Tally) add(c report.Case) {
	t.Rounds.Add(c.Verdict)
	for _, name := range c.Faults {
		t.Bites[name]++
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
	last    float64
}

const seriesMax = 512

func (s *series) add(v float64) {
	s.last = v
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

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
