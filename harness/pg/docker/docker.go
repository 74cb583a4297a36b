package docker

import (
	"context"
	"errors"
	"fmt"

	"deadwire/harness/pg"
)

const (
	// Name is the provider's name.
	Name = "docker"
	// DefaultImage is the official image of the newest major version that is supported.
	DefaultImage = "postgres:18"
	// LogName is the file in Config.Dir with the server's log.
	LogName = "postgres.log"
)

// Options say what is run. The zero value is the official image.
type Options struct {
	Image string // must hold postgres, initdb, sh and a user postgres; "" = DefaultImage
	// Progress is told in words what takes long; may be nil.
	Progress func(string)
}

// Provider starts servers in containers.
type Provider struct {
	options Options
}

// New returns a provider. Nothing is contacted before it is used.
func New(options Options) *Provider {
	if options.Image == "" {
		options.Image = DefaultImage
	}
	if options.Progress == nil {
		options.Progress = func(string) {}
	}
	return &Provider{options: options}
}

// Name implements pg.Provider.
func (p *Provider) Name() string { return Name }

// Image returns the image that is run.
func (p *Provider) Image() string { return p.options.Image }

// Available implements pg.Provider: the daemon answers. The image may still
// have to be pulled, which Prepare does. Its error is *UnavailableError.
func (p *Provider) Available(ctx context.Context) error {
	c, err := connect(ctx)
	if err != nil {
		return err
	}
	return c.Close()
}

// Present reports whether the image is here already.
func (p *Provider) Present(ctx context.Context) (bool, error) {
	c, err := connect(ctx)
	if err != nil {
		return false, err
	}
	here, err := present(ctx, c, p.options.Image)
	return here, errors.Join(err, c.Close())
}

// Prepare implements pg.Preparer: it pulls the image unless it is here. Its
// error is *PullError or *UnavailableError.
func (p *Provider) Prepare(ctx context.Context) error {
	c, err := connect(ctx)
	if err != nil {
		return err
	}
	return errors.Join(pull(ctx, c, p.options.Image, p.options.Progress), c.Close())
}

// Start implements pg.Provider. Its errors include those of Prepare,
// *pg.StartError with the end of the server's log, and *cluster.ReservedError.
func (p *Provider) Start(ctx context.Context, cfg pg.Config) (pg.Server, error) {
	s := newServer(p.options.Image, cfg)
	if err := s.open(ctx, p); err != nil {
		return nil, fmt.Errorf("start postgres: %w", errors.Join(err, s.Stop(context.WithoutCancel(ctx))))
	}
	return s, nil
}
