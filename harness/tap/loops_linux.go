package tap

import "sync/atomic"

// loops are those of a tap.
type loops struct {
	all  []*loop
	turn atomic.Uint32
}

func newLoops() (*loops, error) {
	l, err := newLoop()
	if err != nil {
		return nil, err
	}
	return &loops{all: []*loop{l}}, nil
}

func (ls *loops) next() *loop { return ls.all[int(ls.turn.Add(1))%len(ls.all)] }

func (ls *loops) end() {
	for _, l := range ls.all {
		l.end()
	}
}
