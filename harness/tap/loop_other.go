//go:build !linux

package tap

// loops need epoll: elsewhere goroutines move the bytes.
type loops struct{}

func newLoops() (*loops, error) { return nil, nil }

func (*loops) end() {}

func (t *Tap) adoptFront(l leg) leg { return l }

func (s *Session) adoptBack(l leg) (leg, error) { return l, nil }

func (s *Session) loopRelay(_, _ pump) bool { return false }
