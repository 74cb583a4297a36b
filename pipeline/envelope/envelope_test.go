package envelope_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"deadwire/pipeline/envelope"
)

func TestFirstCrossedBarIsTheOneThatTrips(t *testing.T) {
	t.Parallel()
	bars := envelope.Bars{Load: 7, RSS: 1 << 30, Failures: 0.01, Outcomes: 100}
	for name, c := range map[string]struct {
		sample envelope.Sample
		bar    string
	}{
		"nothing":                  {envelope.Sample{}, ""},
		"on the bar":               {envelope.Sample{Load: 7, RSS: 1 << 30, Failed: 1, Total: 100}, ""},
		"load":                     {envelope.Sample{Load: 7.01, RSS: 2 << 30}, envelope.HostLoad},
		"memory":                   {envelope.Sample{RSS: 1<<30 + 1, Failed: 9, Total: 100}, envelope.RSS},
		"failures":                 {envelope.Sample{Failed: 2, Total: 100}, envelope.Fetches},
		"one failure, few fetches": {envelope.Sample{Failed: 1, Total: 1}, ""},
		"lockout before all":       {envelope.Sample{Lockout: true, Load: 99}, envelope.Lockout},
	} {
		breach := bars.Judge(c.sample)
		if c.bar == "" {
			assert.Assert(t, breach == nil, name)
			continue
		}
		assert.Assert(t, breach != nil, name)
		assert.Equal(t, breach.Bar, c.bar, name)
	}
	assert.Assert(t, envelope.Bars{}.Judge(envelope.Sample{Load: 99, RSS: 1 << 40, Failed: 500, Total: 500}) == nil, "all are off")
}

func TestWindowKeepsTheLastFiveHundred(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		outcomes := rapid.SliceOfN(rapid.Bool(), 0, 1200).Draw(t, "outcomes")
		var window envelope.Window
		for _, failed := range outcomes {
			window.Add(failed)
		}
		last := outcomes[max(0, len(outcomes)-500):]
		want := 0
		for _, failed := range last {
			if failed {
				want++
			}
		}
		failed, total := window.Counts()
		assert.Equal(t, failed, want)
		assert.Equal(t, total, len(last))
	})
}

// world is a clock that moves only by sleeping, and loads that follow a script.
type world struct {
	now   time.Time
	loads []float64 // negative: unreadable; the last one stays
	looks int
}

func (w *world) world() envelope.World {
	return envelope.World{
		Load: func() (float64, bool) {
			load := w.loads[min(w.looks, len(w.loads)-1)]
			w.looks++
			return load, load >= 0
		},
		Now:    func() time.Time { return w.now },
		Sleep:  func(_ context.Context, wait time.Duration) error { w.now = w.now.Add(wait); return nil },
		Jitter: func() float64 { return 1 },
	}
}

func TestGovernorRisesByOneAndFallsByHalf(t *testing.T) {
	t.Parallel()
	limits := envelope.Defaults(9, 4.5, 7)
	start := time.Unix(0, 0)
	for name, c := range map[string]struct {
		loads       []float64
		seed        int
		concurrency int
		waits       int
		slept       time.Duration
	}{
		"calm":               {[]float64{1}, 2, 3, 0, 0},
		"calm at the cap":    {[]float64{1}, 8, 8, 0, 0},
		"unreadable":         {[]float64{-1}, 3, 3, 0, 0},
		"busy, then calm":    {[]float64{5, 7, 4}, 3, 4, 2, 30 * time.Second},
		"busy for long":      {[]float64{6}, 3, 3, 16, 240 * time.Second},
		"over, then calm":    {[]float64{14, 1}, 6, 4, 1, 30 * time.Second},
		"over twice":         {[]float64{14, 14, 1}, 7, 2, 2, 60 * time.Second},
		"seed over the cap":  {[]float64{-1}, 99, 8, 0, 0},
		"seed under one":     {[]float64{-1}, 0, 1, 0, 0},
		"over with one left": {[]float64{14}, 1, 1, 4, 120 * time.Second},
	} {
		w := &world{now: start, loads: c.loads}
		governor := envelope.NewGovernor(limits, w.world(), c.seed)
		assert.NilError(t, governor.Wait(t.Context()), name)
		assert.Equal(t, governor.Concurrency(), c.concurrency, name)
		waits, slept := governor.Waits()
		assert.Equal(t, waits, c.waits, name)
		assert.Equal(t, slept, c.slept, name)
	}
}

func TestGovernorIsOffWithoutAHardLimitAndObeysCancellation(t *testing.T) {
	t.Parallel()
	w := &world{loads: []float64{99}}
	off := envelope.NewGovernor(envelope.Defaults(8, 0, 0), w.world(), 5)
	assert.NilError(t, off.Wait(t.Context()))
	assert.Equal(t, off.Concurrency(), 5)
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	host := envelope.Host()
	host.Load = func() (float64, bool) { return 99, true }
	on := envelope.NewGovernor(envelope.Defaults(8, 4, 7), host, 5)
	assert.ErrorIs(t, on.Wait(ctx), stopped)
}

func TestOurOwnMemoryIsReadable(t *testing.T) {
	t.Parallel()
	bytes := envelope.Memory()
	assert.Assert(t, bytes == 0 || bytes > 1<<20, "%d", bytes)
}
