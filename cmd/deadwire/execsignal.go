package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"deadwire/harness/subject"
)

// signals passes what deadwire is sent on to the program under test. While there
// is none, SIGINT and SIGTERM end the run.
type signals struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	received chan os.Signal
	done     chan struct{}
	left     chan struct{} // closed by a signal that comes after the program's end

	mu       sync.Mutex
	instance *subject.Instance
	leaving  bool
}

func catchSignals(ctx context.Context) *signals {
	s := &signals{received: make(chan os.Signal, 16), done: make(chan struct{}), left: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	signal.Notify(s.received, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT)
	go func() {
		defer close(s.done)
		for sig := range s.received {
			s.take(sig.(syscall.Signal))
		}
	}()
	return s
}

func (s *signals) stop() {
	signal.Stop(s.received)
	close(s.received)
	<-s.done
	s.cancel(nil)
}

// to names the program that signals go to from now on; nil for none.
func (s *signals) to(i *subject.Instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instance = i
}

func (s *signals) take(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ends := sig == syscall.SIGINT || sig == syscall.SIGTERM
	switch {
	case s.instance == nil:
		if ends {
			fmt.Fprintln(os.Stderr, "deadwire: interrupted")
			s.cancel(errInterrupted)
		}
	case !s.instance.Alive(s.instance.PID()):
		if ends && !s.leaving {
			s.leaving = true
			close(s.left)
		}
	case sig == syscall.SIGINT || sig == syscall.SIGQUIT:
		_ = s.instance.SignalGroup(sig) // as the terminal does; it may just have ended
	default:
		_ = s.instance.Signal(sig)
	}
}
