// Package source turns what a user says about PostgreSQL into a provider: one of
// the four kinds, or the first that works.
//
// It owns the words of --postgres and the order of auto; each provider is
// authoritative about whether it can be used here.
package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"deadwire/harness/pg"
	"deadwire/harness/pg/docker"
	"deadwire/harness/pg/embedded"
	"deadwire/harness/pg/external"
	"deadwire/harness/pg/local"
)

// RepositoryVariable names another repository for the embedded provider's binaries.
const RepositoryVariable = "DEADWIRE_POSTGRES_REPOSITORY"

// Auto takes the first of local, docker and embedded that works here.
const Auto = "auto"

// Syntax says what a user may write.
const Syntax = "auto, local, docker, embedded (or embedded:MAJOR), a folder with the server's binaries, or a postgres:// URL"

// Options say what a specification leaves open.
type Options struct {
	AllowRemote bool   // a URL that is not on this machine
	AsIs        bool   // a URL's server is used as it stands; nothing is made in it
	Image       string // for docker; "" = the official one
	// Progress is told in words what takes long; may be nil.
	Progress func(string)
}

// Chosen is a provider that is ready to start a server.
type Chosen struct {
	pg.Provider
	Why string // in one line: what was taken, and what was not and why; "" when the user said it
}

// SyntaxError says that a specification is none.
type SyntaxError struct {
	Spec string // without what may hold a password
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%q: want %s", e.Spec, Syntax) }

// NoneError says that no provider works here.
type NoneError struct {
	Tried []Refusal
}

// Refusal is why one provider does not work.
type Refusal struct {
	Name string
	Err  error
}

func (e *NoneError) Error() string {
	var lines strings.Builder
	lines.WriteString("no PostgreSQL can be had here; mend one of:")
	for _, r := range e.Tried {
		fmt.Fprintf(&lines, "\n  %-9s %v", r.Name, r.Err)
	}
	return lines.String()
}

// Unwrap returns the providers' errors.
func (e *NoneError) Unwrap() []error {
	var errs []error
	for _, r := range e.Tried {
		errs = append(errs, r.Err)
	}
	return errs
}

// Provider returns the provider for a specification, after it has said that it
// is available, and has fetched what it needs. Its errors are *SyntaxError,
// *NoneError, and those of the provider.
func Provider(ctx context.Context, spec string, options Options) (Chosen, error) {
	if spec == Auto {
		return first(ctx, Kinds(options))
	}
	p, err := named(spec, options)
	if err != nil {
		return Chosen{}, err
	}
	if err := ready(ctx, p); err != nil {
		return Chosen{}, fmt.Errorf("no PostgreSQL: %w", err)
	}
	return Chosen{Provider: p}, nil
}

// Kinds returns the providers that auto tries, in its order.
func Kinds(options Options) []pg.Provider {
	return []pg.Provider{
		local.New(local.Options{}),
		docker.New(docker.Options{Image: options.Image, Progress: options.Progress}),
		newEmbedded(0, options),
	}
}

func newEmbedded(major int, options Options) pg.Provider {
	return embedded.New(embedded.Options{Major: major, Repository: os.Getenv(RepositoryVariable), Progress: options.Progress})
}

func named(spec string, options Options) (pg.Provider, error) {
	for _, p := range Kinds(options) {
		if p.Name() == spec {
			return p, nil
		}
	}
	major, isEmbedded := strings.CutPrefix(spec, embedded.Name+":")
	switch {
	case isEmbedded:
		number, err := strconv.Atoi(major)
		if err != nil {
			return nil, &SyntaxError{Spec: spec}
		}
		return newEmbedded(number, options), nil
	case strings.HasPrefix(spec, "postgres://"), strings.HasPrefix(spec, "postgresql://"):
		return external.New(spec, external.Options{AllowRemote: options.AllowRemote, AsIs: options.AsIs}), nil
	case strings.Contains(spec, "://"): // of another scheme, and with a password perhaps
		scheme, _, _ := strings.Cut(spec, "://")
		return nil, &SyntaxError{Spec: scheme + "://…"}
	case strings.ContainsRune(spec, filepath.Separator):
		return local.New(local.Options{BinDir: spec}), nil
	default:
		return nil, &SyntaxError{Spec: spec}
	}
}

// ready reports whether a provider can start a server now.
func ready(ctx context.Context, p pg.Provider) error {
	if err := p.Available(ctx); err != nil {
		return err
	}
	if preparer, has := p.(pg.Preparer); has {
		return preparer.Prepare(ctx)
	}
	return nil
}

// first returns the first provider that is ready.
func first(ctx context.Context, kinds []pg.Provider) (Chosen, error) {
	var refused NoneError
	for _, p := range kinds {
		err := ready(ctx, p)
		if err == nil {
			return Chosen{Provider: p, Why: why(p.Name(), refused.Tried)}, nil
		}
		if ctx.Err() != nil {
			return Chosen{}, errors.Join(context.Cause(ctx), err)
		}
		refused.Tried = append(refused.Tried, Refusal{Name: p.Name(), Err: err})
	}
	return Chosen{}, &refused
}

// why says in one line what was taken and what was not.
func why(taken string, refused []Refusal) string {
	if len(refused) == 0 {
		return "postgres: " + taken + " (server binaries are installed)"
	}
	var reasons []string
	for _, r := range refused {
		reasons = append(reasons, fmt.Sprintf("not %s: %v", r.Name, r.Err))
	}
	return "postgres: " + taken + " (" + strings.ReplaceAll(strings.Join(reasons, "; "), "\n", " ") + ")"
}
