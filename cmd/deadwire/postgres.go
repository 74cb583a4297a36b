package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"deadwire/harness/pg"
	"deadwire/harness/pg/docker"
	"deadwire/harness/pg/embedded"
	"deadwire/harness/pg/external"
	"deadwire/harness/pg/local"
	"deadwire/harness/pg/source"
)

// provider chooses where PostgreSQL comes from. What takes long, and what auto
// took and why, is progress: it goes to standard error.
func (f *common) provider(ctx context.Context) (pg.Provider, error) {
	say := func(text string) {
		if f.format != "quiet" {
			fmt.Fprintln(os.Stderr, "deadwire: "+text)
		}
	}
	chosen, err := source.Provider(ctx, f.postgres, source.Options{
		AllowRemote: f.allowRemote, AsIs: f.asIs, Image: f.image, Progress: say,
	})
	var syntax *source.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, usageError("--postgres=%w", err)
	case err != nil:
		return nil, environment(err)
	case chosen.Why != "":
		say(chosen.Why)
	}
	return chosen.Provider, nil
}

// postgresProbes are the four sources of PostgreSQL, of which one is enough.
func postgresProbes() []probe {
	return []probe{
		{"postgres local", onePostgres, func(ctx context.Context) (string, error) {
			return "server binaries found", local.New(local.Options{}).Available(ctx)
		}},
		{"postgres docker", onePostgres, func(ctx context.Context) (string, error) {
			p := docker.New(docker.Options{})
			here, err := p.Present(ctx)
			if here {
				return "the daemon answers, and image " + p.Image() + " is here", err
			}
			return "the daemon answers; image " + p.Image() + " will be pulled at its first use, or name another with --postgres-image", err
		}},
		{"postgres embedded", onePostgres, func(ctx context.Context) (string, error) {
			p := embedded.New(embedded.Options{Repository: os.Getenv(source.RepositoryVariable)})
			if p.Present() {
				return "binaries are in the cache", p.Available(ctx)
			}
			return "binaries will be fetched at the first use", errors.Join(p.Available(ctx), p.Reach(ctx))
		}},
		{"postgres URL", nothing, func(ctx context.Context) (string, error) {
			url, set := os.LookupEnv("DATABASE_URL")
			if !set {
				return "any server on this machine can be used: --postgres=postgres://USER:PASSWORD@HOST:PORT/DATABASE", nil
			}
			return "that of DATABASE_URL can be used", external.New(url, external.Options{}).Available(ctx)
		}},
	}
}
