package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"deadwire/harness/pg"
	"deadwire/harness/pg/cluster"
)

// fastTimeout is how long Stop lets a fast shutdown take before it gets rough.
const fastTimeout = 15 * time.Second

// server is one cluster of ours and, most of the time, its postmaster.
type server struct {
	pg.Releases
	as       *account
	binaries *binaries
	cfg      pg.Config
	home     *home
	log      *cluster.Log
	logFile  *os.File

	turn    chan struct{} // holds one token while the server is started, stopped or crashed
	stopped bool          // guarded by turn

	mu       sync.Mutex // guards what follows
	process  *process
	port     int
	password pg.Password
}

func (s *server) Provider() string { return Name }

func (s *server) Version() pg.Version { return s.binaries.version }

func (s *server) Can(pg.Power) error { return nil }

func (s *server) Address() pg.Address {
	s.mu.Lock()
	defer s.mu.Unlock()
	return pg.Address{
		Host: "127.0.0.1", Port: s.port, SocketDir: s.home.socket(),
		User: cluster.User, Password: s.password, Database: cluster.Maintenance,
	}
}

func (s *server) URL(database string) string { return s.Address().URL(database) }

// PID returns the postmaster's pid, the last one when it has died.
func (s *server) PID() int {
	if p := s.current(); p != nil {
		return p.PID
	}
	return 0
}

func (s *server) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// inTurn calls do while nobody else starts, stops or crashes the server.
func (s *server) inTurn(ctx context.Context, do func() error) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
		return do()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errStopped = errors.New("the server has been stopped")

func (s *server) Restart(ctx context.Context, mode pg.Mode) error {
	signal := syscall.SIGINT
	if mode == pg.Immediate {
		signal = syscall.SIGQUIT
	}
	err := s.inTurn(ctx, func() error {
		if s.stopped {
			return errStopped
		}
		if err := s.shutDown(ctx, signal); err != nil {
			return err
		}
		return s.bootAgain(ctx)
	})
	if err != nil {
		return fmt.Errorf("restart postgres (%s): %w", mode, err)
	}
	return nil
}

// shutDown signals the postmaster and returns once it is reaped and nothing of
// it is left.
func (s *server) shutDown(ctx context.Context, signal syscall.Signal) error {
	p := s.current()
	if p == nil {
		return nil
	}
	if err := p.signal(signal); err != nil {
		return err
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		return fmt.Errorf("wait for postmaster %d to end: %w", p.PID, context.Cause(ctx))
	}
	return errors.Join(p.err, releaseSharedMemory(ctx, s.home.data()))
}

func (s *server) Stop(ctx context.Context) error {
	release := s.Release(ctx)
	// What has begun must be ended, whatever became of the caller.
	lasting := context.WithoutCancel(ctx)
	err := s.inTurn(lasting, func() error {
		if s.stopped {
			return nil
		}
		s.stopped = true
		return errors.Join(s.endProcess(ctx), s.closeFolder())
	})
	if err := errors.Join(release, err); err != nil {
		return fmt.Errorf("stop postgres: %w", err)
	}
	return nil
}

// endProcess asks the postmaster to end, more roughly each time. Having had to
// is no error.
func (s *server) endProcess(ctx context.Context) error {
	err := s.endWithin(ctx, fastTimeout, syscall.SIGINT)
	for _, signal := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		if p := s.current(); p == nil || p.dead() {
			return err
		}
		err = s.endWithin(context.WithoutCancel(ctx), quitTimeout, signal)
	}
	return err
}

func (s *server) endWithin(ctx context.Context, limit time.Duration, signal syscall.Signal) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return s.shutDown(ctx, signal)
}

func (s *server) closeFolder() error {
	var errs []error
	if s.home != nil {
		errs = append(errs, s.home.remove())
	}
	if s.logFile != nil {
		errs = append(errs, s.log.Err(), s.logFile.Close())
	}
	return errors.Join(errs...)
}
