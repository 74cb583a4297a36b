package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"deadwire/harness/event"
	"deadwire/harness/janitor"
	"deadwire/harness/pg"
	"deadwire/harness/pg/local"
	"deadwire/harness/proxy"
	"deadwire/harness/tap"
	"deadwire/harness/wait"
)

const (
	stopMax  = 30 * time.Second // for taking everything down after an interrupt
	startMax = 20 * time.Second // for a competitor to listen
)

// server is the PostgreSQL that all rows of a run share.
type server struct {
	pg.Server
	dir string // for files of the competitors
}

// begin removes what a killed run left behind, and starts to keep account.
func (b *Bench) begin(ctx context.Context) error {
	if _, err := janitor.Sweep(ctx, ""); err != nil {
		return err
	}
	lease, err := janitor.Acquire("")
	if err != nil {
		return err
	}
	b.lease = lease
	b.onStop(func(context.Context) error { return lease.Release() })
	return nil
}

func (b *Bench) onStop(stop func(context.Context) error) { b.stops = append(b.stops, stop) }

// stop takes down what the rows began, last one first.
func (b *Bench) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopMax)
	defer cancel()
	var errs []error
	for i := len(b.stops) - 1; i >= 0; i-- {
		errs = append(errs, b.stops[i](ctx))
	}
	b.stops = nil
	return errors.Join(errs...)
}

func joinStop(err, stopErr error) error {
	if stopErr != nil {
		stopErr = fmt.Errorf("take down: %w", stopErr)
	}
	return errors.Join(err, stopErr)
}

// tempDir returns a folder for files of this run, removed at its end.
func (b *Bench) tempDir(pattern string) (string, error) {
	dir, err := os.MkdirTemp("", "deadwire-bench-"+pattern)
	if err != nil {
		return "", fmt.Errorf("create bench folder: %w", err)
	}
	b.onStop(func(context.Context) error { return os.RemoveAll(dir) })
	// The server's own user must be able to enter it.
	if err := errors.Join(os.Chmod(dir, 0o711), b.lease.OwnDir(dir)); err != nil {
		return "", fmt.Errorf("open bench folder: %w", err)
	}
	return dir, nil
}

// sharedServer returns the shared server, started and filled for pgbench on first use.
func (b *Bench) sharedServer(ctx context.Context) (*server, error) {
	if b.server != nil {
		return b.server, nil
	}
	dir, err := b.tempDir("pg")
	if err != nil {
		return nil, err
	}
	started, err := local.New(local.Options{}).Start(ctx, pg.Config{Dir: dir, Owner: b.lease})
	if err != nil {
		return nil, err
	}
	b.onStop(started.Stop)
	s := &server{Server: started, dir: dir}
	if err := s.pgbench(ctx, s.Address().HostPort(), nil, "-i", "-q", "-s", "1"); err != nil {
		return nil, fmt.Errorf("fill for pgbench: %w", err)
	}
	b.server = s
	return s, nil
}

// watchPath starts a tap before the server, as exec does.
func (b *Bench) watchPath(ctx context.Context, s *server) (string, error) {
	return b.tap(ctx, event.Front, s.Address().HostPort())
}

// throughPath starts front tap, Toxiproxy and back tap, as run does.
func (b *Bench) throughPath(ctx context.Context, s *server) (string, error) {
	back, err := b.tap(ctx, event.Back, s.Address().HostPort())
	if err != nil {
		return "", err
	}
	link, err := b.link(ctx, back)
	if err != nil {
		return "", err
	}
	return b.tap(ctx, event.Front, link)
}

// toxiproxyPath starts a bare Toxiproxy, without toxics.
func (b *Bench) toxiproxyPath(ctx context.Context, s *server) (string, error) {
	return b.link(ctx, s.Address().HostPort())
}

func (b *Bench) tap(ctx context.Context, place event.Place, upstream string) (string, error) {
	t, err := tap.Start(ctx, tap.Config{Place: place, Upstream: upstream, Recorder: event.NewJournal(nil, 0)})
	if err != nil {
		return "", err
	}
	b.onStop(t.Close)
	return t.Addr().String(), nil
}

func (b *Bench) link(ctx context.Context, upstream string) (string, error) {
	p, err := proxy.Start(ctx, proxy.Config{})
	if err != nil {
		return "", err
	}
	b.onStop(p.Close)
	link, err := p.NewLink(ctx, "bench", upstream)
	if err != nil {
		return "", err
	}
	return link.Addr().String(), nil
}

// haproxyConfig is HAProxy as it is used before PostgreSQL: TCP mode, and one
// thread, which wins on two cores (wire facts, section 8).
const haproxyConfig = `global
  nbthread 1
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen pg
  bind 127.0.0.1:%d
  server pg %s
`

// haproxyPath starts HAProxy before the server.
func (b *Bench) haproxyPath(ctx context.Context, s *server) (string, error) {
	dir, err := b.tempDir("haproxy")
	if err != nil {
		return "", err
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, fmt.Appendf(nil, haproxyConfig, port, s.Address().HostPort()), 0o600); err != nil {
		return "", fmt.Errorf("configure haproxy: %w", err)
	}
	cmd := exec.Command("haproxy", "-db", "-f", file)
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start haproxy: %w", err)
	}
	b.onStop(func(context.Context) error {
		err := cmd.Process.Kill()
		_ = cmd.Wait() // killed
		return err
	})
	if err := b.lease.OwnProcess(cmd.Process.Pid); err != nil {
		return "", err
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return addr, listening(ctx, addr)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func listening(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	return wait.For(ctx, addr+" to listen", func(ctx context.Context) wait.Answer {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return wait.NotYet("%v", err)
		}
		_ = conn.Close() // it was opened, which was the question
		return wait.Done()
	})
}
