package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"deadwire/harness/pg"
	"deadwire/harness/pg/cluster"
)

const (
	// fastTimeout is how long Stop lets a fast shutdown take before it gets rough.
	fastTimeout = 15 * time.Second
	quitTimeout = 8 * time.Second
)

// signals of pg_ctl's shutdown modes, as kill knows them
const (
	interrupt = "INT"
	quit      = "QUIT"
)

// server is one container of ours with a cluster in it.
type server struct {
	pg.Releases
	image   string
	cfg     pg.Config
	engine  engine
	version pg.Version
	port    int
	log     *cluster.Log
	logFile *os.File

	name       string // of the container; "" before there is one
	supervisor *supervisor
	password   pg.Password

	turn    chan struct{} // holds one token while the server is started, stopped or crashed
	stopped bool          // guarded by turn

	mu  sync.Mutex
	pid int // of the last postmaster
}

func newServer(image string, cfg pg.Config) *server {
	return &server{image: image, cfg: cfg, turn: make(chan struct{}, 1)}
}

func (s *server) Provider() string { return Name }

func (s *server) Version() pg.Version { return s.version }

func (s *server) Can(pg.Power) error { return nil }

func (s *server) Address() pg.Address {
	return pg.Address{Host: loopback, Port: s.port, User: cluster.User, Password: s.password, Database: cluster.Maintenance}
}

func (s *server) URL(database string) string { return s.Address().URL(database) }

// PID returns the postmaster's pid in the container, the last one when it has died.
func (s *server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid
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
	signal := interrupt
	if mode == pg.Immediate {
		signal = quit
	}
	err := s.inTurn(ctx, func() error {
		if s.stopped {
			return errStopped
		}
		if err := s.shutDown(ctx, signal); err != nil {
			return err
		}
		return s.boot(ctx)
	})
	if err != nil {
		return fmt.Errorf("restart postgres (%s): %w", mode, err)
	}
	return nil
}

// shutDown signals the postmaster, if it lives, and returns once it is gone.
func (s *server) shutDown(ctx context.Context, signal string) error {
	p := s.supervisor.postmaster()
	if p == nil || p.dead() {
		return nil
	}
	if _, err := s.supervisor.ask(ctx, fmt.Sprintf("signal %s %d", signal, p.pid)); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for postmaster %d to end: %w", p.pid, context.Cause(ctx))
	}
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
		if s.supervisor != nil {
			s.endPostmaster(lasting)
		}
		return errors.Join(s.endContainer(lasting), s.closeLog())
	})
	if err := errors.Join(release, err); err != nil {
		return fmt.Errorf("stop postgres: %w", err)
	}
	return nil
}

// endPostmaster lets the server say goodbye in its log. If it will not, it goes
// with its container, which is no error.
func (s *server) endPostmaster(ctx context.Context) {
	for _, way := range []struct {
		signal string
		limit  time.Duration
	}{{interrupt, fastTimeout}, {quit, quitTimeout}} {
		bounded, cancel := context.WithTimeout(ctx, way.limit)
		err := s.shutDown(bounded, way.signal)
		cancel()
		if err == nil {
			return
		}
	}
}

// endContainer ends the container and waits until the daemon has removed it.
func (s *server) endContainer(ctx context.Context) error {
	var errs []error
	if s.supervisor != nil {
		errs = append(errs, s.supervisor.close())
	}
	if s.name != "" {
		errs = append(errs, s.engine.remove(ctx, s.name))
	}
	if s.supervisor != nil {
		<-s.supervisor.ended
		errs = append(errs, s.supervisor.err)
	}
	if s.engine.Client != nil {
		errs = append(errs, s.engine.Close())
	}
	return errors.Join(errs...)
}

func (s *server) closeLog() error {
	if s.logFile == nil {
		return nil
	}
	return errors.Join(s.log.Err(), s.logFile.Close())
}

func (s *server) openLog() error {
	file, err := os.OpenFile(filepath.Join(s.cfg.Dir, LogName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	s.logFile, s.log = file, cluster.NewLog(file, s.cfg.OnLog)
	return nil
}
