package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"deadwire/harness/pg"
	"deadwire/harness/pg/cluster"
	"deadwire/harness/wait"
)

const (
	// readyTimeout bounds a start, recovery included.
	readyTimeout = 60 * time.Second
	// bootTries is how often a start is tried when someone else takes its port.
	bootTries = 5
)

// errPortTaken says that the postmaster died and that its port is someone else's.
var errPortTaken = errors.New("another process took the port")

// bootAnywhere starts the postmaster on a free port. A port can be lost between
// the choice and the postmaster's bind; then another one is tried.
func (s *server) bootAnywhere(ctx context.Context) error {
	var err error
	for range bootTries {
		var port int
		if port, err = cluster.FreePort(); err != nil {
			return err
		}
		if err = s.boot(ctx, port); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

// bootAgain starts the postmaster where it was: its address is known to others.
func (s *server) bootAgain(ctx context.Context) error {
	port := s.Address().Port
	for try := 1; ; try++ {
		err := s.boot(ctx, port)
		if !errors.Is(err, errPortTaken) || try == bootTries {
			return err
		}
		err = wait.For(ctx, "port "+strconv.Itoa(port), func(context.Context) wait.Answer {
			if free, err := cluster.PortFree(port); err != nil || !free {
				return wait.NotYet("it is taken")
			}
			return wait.Done()
		})
		if err != nil {
			return err
		}
	}
}

// boot starts the postmaster once and waits until it accepts sessions.
func (s *server) boot(ctx context.Context, port int) error {
	conf, err := cluster.Conf(s.binaries.version, cluster.Place{Port: port, SocketDir: s.home.socket()}, s.cfg.Settings)
	if err != nil {
		return err
	}
	if err := writeConf(s.home.data(), conf, s.as); err != nil {
		return err
	}
	p, err := spawn(s.command(), s.log)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.process, s.port = p, port
	s.mu.Unlock()
	if err := s.account(p); err != nil {
		return err
	}
	err = s.awaitReady(ctx, p)
	if err != nil && p.dead() {
		if free, probeErr := cluster.PortFree(port); probeErr == nil && !free {
			return errors.Join(errPortTaken, err)
		}
	}
	return err
}

func (s *server) command() *exec.Cmd {
	cmd := exec.Command(s.binaries.path("postgres"), "-D", s.home.data())
	// Immediate shutdown if we die: it takes the children along.
	cmd.SysProcAttr = childAttributes(s.as, syscall.SIGQUIT)
	cmd.Dir, cmd.Env = s.home.dir, environment()
	return cmd
}

// account makes the process known to those who end it if we cannot.
func (s *server) account(p *process) error {
	if err := s.home.record(p.identity); err != nil {
		return err
	}
	if s.cfg.Owner == nil {
		return nil
	}
	if err := s.cfg.Owner.OwnProcess(p.PID); err != nil {
		return fmt.Errorf("register postmaster: %w", err)
	}
	return nil
}

// awaitReady waits for a session over the private socket: nobody else can be
// listening there, and the postmaster binds its TCP port before.
func (s *server) awaitReady(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	err := s.awaitSession(ctx, p)
	if err != nil {
		return &pg.StartError{Err: err, Log: s.log.Tail()}
	}
	return nil
}

func (s *server) awaitSession(ctx context.Context, p *process) error {
	address := s.Address()
	return wait.For(ctx, "PostgreSQL to accept sessions", func(ctx context.Context) wait.Answer {
		if p.dead() {
			return wait.Never(fmt.Errorf("it ended with %s", p.state))
		}
		if status := s.status(p); status != statusReady {
			return wait.NotYet("postmaster.pid says %q", status)
		}
		conn, err := pg.Connect(ctx, address.SocketURL(address.Database))
		switch {
		case err == nil:
			return answerOf(conn.Close(ctx))
		case pg.NotReady(err):
			return wait.NotYet("%v", err)
		default:
			return wait.Never(err)
		}
	})
}

// statusReady is the postmaster's own word for accepting sessions (PostgreSQL
// source, pidfile.h). It is asked first, since each refused session would stand
// in the log as FATAL.
const statusReady = "ready"

// status returns the last line of postmaster.pid, "" if that is not from p.
func (s *server) status(p *process) string {
	text, err := os.ReadFile(filepath.Join(s.home.data(), "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	if err != nil || len(lines) <= lineStatus || lines[linePID] != strconv.Itoa(p.PID) {
		return ""
	}
	return strings.TrimSpace(lines[lineStatus])
}

func answerOf(err error) wait.Answer {
	if err != nil {
		return wait.NotYet("%v", err)
	}
	return wait.Done()
}

// changePassword replaces the first password, which all clones of the cached
// folder share, by one that only this server has.
func (s *server) changePassword(ctx context.Context) error {
	password := cluster.NewPassword()
	verifier, err := cluster.Verifier(password)
	if err != nil {
		return err
	}
	address := s.Address()
	conn, err := pg.Connect(ctx, address.SocketURL(address.Database))
	if err != nil {
		return fmt.Errorf("change password: %w", err)
	}
	_, err = conn.Exec(ctx, "ALTER ROLE "+cluster.User+" PASSWORD '"+verifier+"'")
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("change password: %w", err)
	}
	s.mu.Lock()
	s.password = password
	s.mu.Unlock()
	return nil
}
