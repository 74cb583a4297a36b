package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"deadwire/harness/pg"
	"deadwire/harness/proxy"
)

// stopMax bounds the stop of each part: a fresh context is used, since the
// run's own may have been cancelled.
const stopMax = 30 * time.Second

// Owner keeps account of what must not outlive the run, so that a later
// deadwire can end it should this one be killed. A janitor's lease is one.
type Owner interface {
	OwnProcess(pid int) error
	OwnDir(path string) error
	// Own records a thing of another kind, such as a cgroup.
	Own(kind, value string) error
}

// Config says what a rig is made of.
type Config struct {
	Provider pg.Provider
	// LogFile receives the log of every server; "" for none.
	LogFile string
	// Settings are added to the configuration of every server that we start.
	Settings map[string]string
	// Owner is told of processes and folders; may be nil.
	Owner Owner
	// Env is added to the environment of every subject: NAME=VALUE.
	Env []string
	// ProxyAPI is the address of Toxiproxy's HTTP interface; default: a free port on loopback.
	ProxyAPI string
}

// Rig is a running harness. It is safe for concurrent use.
type Rig struct {
	cfg    Config
	shared *server
	proxy  *proxy.Proxy
	log    *os.File
	logMu  sync.Mutex

	mu    sync.Mutex
	stops []func(context.Context) error // last added goes first
}

// New starts the shared server and Toxiproxy. What it began before an error is
// taken back before it returns.
func New(ctx context.Context, cfg Config) (*Rig, error) {
	r := &Rig{cfg: cfg}
	if err := r.start(ctx); err != nil {
		return nil, errors.Join(err, r.Close(ctx))
	}
	return r, nil
}

func (r *Rig) start(ctx context.Context) (err error) {
	if r.cfg.LogFile != "" {
		r.log, err = os.OpenFile(r.cfg.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("open server log: %w", err)
		}
		r.onClose(func(context.Context) error { return r.log.Close() })
	}
	if r.shared, err = r.startServer(ctx); err != nil {
		return err
	}
	r.proxy, err = proxy.Start(ctx, proxy.Config{APIListen: r.cfg.ProxyAPI})
	if err != nil {
		return err
	}
	r.onClose(r.proxy.Close)
	return nil
}

// Owner returns who keeps account of what must not outlive the run; may be nil.
func (r *Rig) Owner() Owner { return r.cfg.Owner }

// Server returns the server that cases share.
func (r *Rig) Server() pg.Server { return r.shared.Server }

// ProxyAPI returns the address of Toxiproxy's HTTP interface.
func (r *Rig) ProxyAPI() string { return r.proxy.APIAddr().String() }

func (r *Rig) onClose(stop func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stops = append(r.stops, stop)
}

// Close stops everything in the reverse order of its start. It is repeatable,
// and goes on when ctx has ended.
func (r *Rig) Close(ctx context.Context) error {
	r.mu.Lock()
	stops := r.stops
	r.stops = nil
	r.mu.Unlock()
	return stopAll(ctx, stops)
}

// stopAll runs stops from the last to the first, each with its own time.
func stopAll(ctx context.Context, stops []func(context.Context) error) error {
	var errs []error
	for i := len(stops) - 1; i >= 0; i-- {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopMax)
		errs = append(errs, stops[i](bounded))
		cancel()
	}
	return errors.Join(errs...)
}
