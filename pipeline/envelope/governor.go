package envelope

import (
	"context"
	"time"
)

// Limits are the governor's; Defaults has the specification's.
type Limits struct {
	Soft, Hard float64       // 1-minute load averages; Hard 0 switches the governor off
	Interval   time.Duration // between two looks at the load
	Hold       time.Duration // the longest wait between Soft and Hard
	Sustained  time.Duration // above Hard at one dispatch at a time, until it gives up
	Cap        int           // dispatches at a time, at most
}

// Defaults are the limits for a host of that many processors: one is left to others.
func Defaults(processors int, soft, hard float64) Limits {
	return Limits{
		Soft: soft, Hard: hard, Interval: 15 * time.Second, Hold: 240 * time.Second, Sustained: 120 * time.Second,
		Cap: max(processors-1, 1),
	}
}

// World is what the governor sees and does; tests give it another.
type World struct {
	// Load returns the load average, and false when it cannot be read.
	Load func() (float64, bool)
	// Now is the clock.
	Now func() time.Time
	// Sleep waits, and returns early with the context's cause.
	Sleep func(context.Context, time.Duration) error
	// Jitter returns a factor between 0.75 and 1.5.
	Jitter func() float64
}

// Governor finds how many dispatches at a time the host bears: one more after each
// calm look, half of them when the load is over the hard limit. It is for one
// goroutine, holds nothing while it sleeps, and never trips by itself.
type Governor struct {
	limits      Limits
	world       World
	concurrency int
	overSince   time.Time
	waits       int
	slept       time.Duration
}

// NewGovernor starts at a seed within [1, Cap].
func NewGovernor(limits Limits, world World, seed int) *Governor {
	return &Governor{limits: limits, world: world, concurrency: min(max(seed, 1), max(limits.Cap, 1))}
}

// Concurrency is how many dispatches may run at a time now.
func (g *Governor) Concurrency() int { return g.concurrency }

// Waits returns how often and how long it has slept since the last call.
func (g *Governor) Waits() (times int, slept time.Duration) {
	times, slept = g.waits, g.slept
	g.waits, g.slept = 0, 0
	return times, slept
}

// Wait returns when the next dispatch may go on. Its own sample must still be judged
// afterwards: an overload that lasts is left for that to trip on.
func (g *Governor) Wait(ctx context.Context) error {
	if g.limits.Hard <= 0 {
		return nil
	}
	began := g.world.Now()
	for {
		load, readable := g.world.Load()
		pause, over := g.look(load, readable, began)
		if over {
			return nil
		}
		g.waits++
		g.slept += pause
		err := g.world.Sleep(ctx, pause)
		if err != nil {
			return err
		}
	}
}

// look decides on one sample: whether waiting is over, else how long to pause.
func (g *Governor) look(load float64, readable bool, began time.Time) (pause time.Duration, over bool) {
	now := g.world.Now()
	if load <= g.limits.Hard || !readable {
		g.overSince = time.Time{}
	}
	pause = time.Duration(float64(g.limits.Interval) * g.world.Jitter())
	switch {
	case !readable:
		return 0, true
	case load < g.limits.Soft:
		g.concurrency = min(g.concurrency+1, max(g.limits.Cap, 1))
		return 0, true
	case load <= g.limits.Hard:
		return pause, now.Sub(began) >= g.limits.Hold
	case g.concurrency > 1:
		g.concurrency /= 2
	case g.overSince.IsZero():
		g.overSince = now
	case now.Sub(g.overSince) >= g.limits.Sustained:
		return 0, true
	}
	return time.Duration(float64(pause) * load / g.limits.Hard), false
}
