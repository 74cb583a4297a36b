package main

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

func TestGrowthIsTheSlopeAfterTheFirstQuarter(t *testing.T) {
	grown := func(each float64) *growth {
		g := &growth{workers: 2}
		for i := range 40 {
			s := sizes{cards: float64(250 * i), coordinator: 30, workers: 50}
			if i >= 10 { // whatever came before is warming up
				s.workers += each * float64(i) / 4
			}
			g.samples = append(g.samples, s)
		}
		return g
	}
	assert.NilError(t, grown(0.4).verdict(io.Discard))
	assert.ErrorContains(t, grown(0.6).verdict(io.Discard), "memory grows by 0.60 MiB per 1,000 cards")
	assert.Assert(t, math.Abs(slope(grown(2).samples[10:], func(s sizes) float64 { return s.workers })-2) < 1e-9)
	few := grown(0)
	few.samples = few.samples[:4]
	assert.ErrorContains(t, few.verdict(io.Discard), "too few batches")
}

func TestEveryPictureHasBytesOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	assert.NilError(t, pictures(dir, 250))
	files, err := filepath.Glob(filepath.Join(dir, "*.png"))
	assert.NilError(t, err)
	seen := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		assert.NilError(t, err)
		seen[string(data)] = true
	}
	assert.Equal(t, len(seen), 250)
}
