package tap

import (
	"runtime"
	"sync"
)

// shared are the loops of all taps of this process. Taps that stand one behind the
// other then take turns in one goroutine, instead of waking each other's threads:
// behind a Toxiproxy, on two cores, that gave a fifth more throughput.
var shared struct {
	mu   sync.Mutex
	taps int
	all  []*loop
}

// loops are those that a tap uses.
type loops struct {
	all  []*loop
	left sync.Once

	mu   sync.Mutex
	turn int
}

// newLoops joins the shared loops, which run while any tap does: one for two cores,
// since who talks through them needs the others.
func newLoops() (*loops, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.taps == 0 {
		all, err := startLoops(max(1, runtime.GOMAXPROCS(0)/2))
		if err != nil {
			return nil, err
		}
		shared.all = all
	}
	shared.taps++
	return &loops{all: shared.all}, nil
}

func startLoops(n int) (all []*loop, err error) {
	for range n {
		l, err := newLoop()
		if err != nil {
			endLoops(all)
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

func endLoops(all []*loop) {
	for _, l := range all {
		l.end()
	}
}

// next returns the loop for one more session.
func (ls *loops) next() *loop {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.turn++
	return ls.all[ls.turn%len(ls.all)]
}

// end leaves the loops, and stops them when no other tap is left. It may be called
// more than once.
func (ls *loops) end() { ls.left.Do(leaveLoops) }

func leaveLoops() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.taps--; shared.taps == 0 {
		endLoops(shared.all)
		shared.all = nil
	}
}
