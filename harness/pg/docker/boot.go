package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"deadwire/harness/pg"
	"deadwire/harness/pg/cluster"
	"deadwire/harness/wait"
)

const (
	// readyTimeout bounds a start, recovery included.
	readyTimeout = 60 * time.Second
	// crashTimeout bounds the way from the kill until sessions are accepted again.
	crashTimeout = 60 * time.Second
	// runTries is how often a container is tried when someone else takes its port.
	runTries = 5
)

// where things are in the container
const (
	home         = "/tmp/deadwire" // as in supervisor.sh
	data         = home + "/data"
	passwordName = "password"
	confName     = "deadwire.conf"
)

// open makes the container and starts the server in it for the first time.
func (s *server) open(ctx context.Context, p *Provider) error {
	// The newest version knows all settings that can be reserved.
	if _, err := cluster.Conf(pg.Version{Major: pg.MajorMax}, cluster.Place{}, s.cfg.Settings); err != nil {
		return err // before anything is made
	}
	c, err := connect(ctx)
	if err != nil {
		return err
	}
	s.engine = engine{c}
	if err := pull(ctx, c, s.image, p.options.Progress); err != nil {
		return err
	}
	if err := s.openLog(); err != nil {
		return err
	}
	if err := s.run(ctx); err != nil {
		return err
	}
	if err := s.initialise(ctx); err != nil {
		return &pg.StartError{Err: err, Log: s.log.Tail()}
	}
	return s.boot(ctx)
}

// run makes a container on a free port. A port can be lost between the choice
// and the daemon's bind; then another one is tried.
func (s *server) run(ctx context.Context) error {
	for try := 1; ; try++ {
		port, err := cluster.FreePort()
		if err != nil {
			return err
		}
		name := newName()
		if s.cfg.Owner != nil { // before it exists, so that there is no moment at which nobody knows it
			if err := s.cfg.Owner.Own(Kind, name); err != nil {
				return fmt.Errorf("register container: %w", err)
			}
		}
		supervisor, err := s.engine.run(ctx, s.image, name, port, s.log)
		if err == nil {
			s.name, s.port, s.supervisor = name, port, supervisor
			return nil
		}
		if free, probeErr := cluster.PortFree(port); try == runTries || probeErr != nil || free {
			return err
		}
	}
}

// initialise makes the cluster and its settings.
func (s *server) initialise(ctx context.Context) error {
	text, err := s.supervisor.ask(ctx, "version")
	if err != nil {
		return err
	}
	if s.version, err = pg.ParseVersion(text); err != nil {
		return fmt.Errorf("image %s holds no PostgreSQL server on its PATH: %w", s.image, err)
	}
	if err := s.version.Supported(); err != nil {
		return err
	}
	s.password = cluster.NewPassword()
	if err := s.supervisor.write(ctx, passwordName, s.password.Reveal()); err != nil {
		return err
	}
	args := cluster.InitArgs(s.version, data, home+"/"+passwordName)
	if _, err := s.supervisor.ask(ctx, "initdb "+strings.Join(args, " ")); err != nil {
		return err
	}
	conf, err := cluster.Conf(s.version, cluster.Place{Port: s.port, SocketDir: home + "/socket", Listen: "*"}, s.cfg.Settings)
	if err != nil {
		return err
	}
	_, err = s.supervisor.ask(ctx, "include "+data+"/postgresql.conf "+home+"/"+confName)
	return errors.Join(err,
		s.supervisor.write(ctx, confName, conf),
		s.supervisor.write(ctx, "data/pg_hba.conf", cluster.ContainerHBA))
}

// boot starts the postmaster and waits until it accepts sessions.
func (s *server) boot(ctx context.Context) error {
	if _, err := s.supervisor.ask(ctx, "start"); err != nil {
		return err
	}
	p := s.supervisor.postmaster()
	s.mu.Lock()
	s.pid = p.pid
	s.mu.Unlock()
	return s.awaitReady(ctx, p)
}

func (s *server) awaitReady(ctx context.Context, p *postmaster) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := s.awaitSession(ctx, p); err != nil {
		return &pg.StartError{Err: err, Log: s.log.Tail()}
	}
	return nil
}

// statusReady is the postmaster's own word for accepting sessions (PostgreSQL
// source, pidfile.h). It is asked first, since each refused session would stand
// in the log as FATAL.
const statusReady = "ready"

func (s *server) awaitSession(ctx context.Context, p *postmaster) error {
	return wait.For(ctx, "PostgreSQL to accept sessions", func(ctx context.Context) wait.Answer {
		if p.dead() {
			return wait.Never(fmt.Errorf("it ended with %s", p.status))
		}
		status, err := s.supervisor.ask(ctx, "status")
		if err != nil {
			return wait.Never(err)
		}
		if strings.TrimSpace(status) != statusReady {
			return wait.NotYet("postmaster.pid says %q", status)
		}
		conn, err := pg.Connect(ctx, s.URL(cluster.Maintenance))
		if err == nil {
			err = conn.Close(ctx)
		}
		switch {
		case err == nil:
			return wait.Done()
		case pg.NotReady(err):
			return wait.NotYet("%v", err)
		default:
			return wait.Never(err)
		}
	})
}

// CrashBackend implements pg.Server. The pid is that of the container, as the
// server itself tells it.
func (s *server) CrashBackend(ctx context.Context, backendPID int) error {
	err := s.inTurn(ctx, func() error {
		if s.stopped {
			return errStopped
		}
		return s.crash(ctx, backendPID)
	})
	if err != nil {
		return fmt.Errorf("crash backend %d: %w", backendPID, err)
	}
	return nil
}

// crash kills the backend, and knows by a session of its own, which is cut like
// all others, that the postmaster has noticed: before that a new session would
// still be accepted, and prove nothing.
func (s *server) crash(ctx context.Context, backendPID int) error {
	ctx, cancel := context.WithTimeout(ctx, crashTimeout)
	defer cancel()
	sentinel, err := pg.Connect(ctx, s.URL(cluster.Maintenance))
	if err != nil {
		return fmt.Errorf("open sentinel session: %w", err)
	}
	defer func() { _ = sentinel.Close(context.WithoutCancel(ctx)) }() // cut by then, or the error is told already
	p := s.supervisor.postmaster()
	_, err = s.supervisor.ask(ctx, fmt.Sprintf("crash %d %d", backendPID, p.pid))
	if errors.Is(err, errStranger) {
		return &pg.NotBackendError{PID: backendPID}
	}
	if err != nil {
		return err
	}
	for err == nil { // notices may come first; ends with the session or ctx
		_, err = sentinel.WaitForNotification(ctx)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("wait for sessions to be cut: %w", context.Cause(ctx))
	}
	return s.awaitReady(ctx, p)
}
