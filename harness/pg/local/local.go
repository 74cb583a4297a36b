package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"deadwire/harness/pg"
	"deadwire/harness/pg/cluster"
)

// Name is the provider's name.
const Name = "local"

// LogName is the file in Config.Dir with the server's log.
const LogName = "postgres.log"

// Options narrow the provider down. The zero value looks everywhere.
type Options struct {
	BinDir string // folder with postgres and initdb; "" = PATH, the usual folders, pg_config
}

// Provider starts servers from installed binaries.
type Provider struct {
	options Options
}

// New returns a provider. Nothing is looked at before it is used.
func New(options Options) *Provider { return &Provider{options: options} }

// Name implements pg.Provider.
func (p *Provider) Name() string { return Name }

// Available implements pg.Provider. Its errors are *pg.MissingError and
// *pg.TooOldError, or say why no unprivileged user can be had.
func (p *Provider) Available(ctx context.Context) error {
	_, _, err := p.look(ctx)
	return err
}

func (p *Provider) look(ctx context.Context) (*account, *binaries, error) {
	as, err := chooseAccount()
	if err != nil {
		return nil, nil, err
	}
	b, err := find(ctx, p.options.BinDir, as)
	return as, b, err
}

// Start implements pg.Provider. Its errors include *pg.StartError, with the end
// of the server's log, and *cluster.ReservedError.
func (p *Provider) Start(ctx context.Context, cfg pg.Config) (pg.Server, error) {
	as, b, err := p.look(ctx)
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	s := &server{as: as, binaries: b, cfg: cfg, turn: make(chan struct{}, 1)}
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("start postgres: %w", errors.Join(err, s.Stop(context.WithoutCancel(ctx))))
	}
	return s, nil
}

// open makes the server's folder and starts the server in it for the first time.
func (s *server) open(ctx context.Context) error {
	if _, err := cluster.Conf(s.binaries.version, cluster.Place{}, s.cfg.Settings); err != nil {
		return err // before anything is made
	}
	file, err := os.OpenFile(filepath.Join(s.cfg.Dir, LogName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	s.logFile, s.log = file, cluster.NewLog(file, s.cfg.OnLog)
	if err := sweep(ctx, s.as); err != nil {
		// Not our server's trouble: it is told, and left to the next sweep.
		s.log.Entry(pg.LogEntry{Text: "deadwire: sweep folders of killed runs: " + err.Error()})
	}
	if s.home, err = newHome(s.cfg.Dir, s.as); err != nil {
		return err
	}
	if err := s.home.register(s.cfg.Owner); err != nil {
		return fmt.Errorf("register server folder: %w", err)
	}
	cache, err := openCache(s.cfg.CacheDir, s.as)
	if err != nil {
		return err
	}
	if s.password, err = cache.clone(ctx, s.binaries, s.home.data()); err != nil {
		return err
	}
	if err := s.bootAnywhere(ctx); err != nil {
		return err
	}
	return s.changePassword(ctx)
}
