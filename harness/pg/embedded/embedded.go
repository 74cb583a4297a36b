package embedded

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"deadwire/harness/pg"
	"deadwire/harness/pg/local"
)

const (
	// Name is the provider's name.
	Name = "embedded"
	// DefaultRepository is Maven Central, where zonkyio publishes the binaries.
	DefaultRepository = "https://repo1.maven.org/maven2"
	// reachTimeout bounds the question whether a repository is there.
	reachTimeout = 5 * time.Second
)

// Options say what is fetched, and where from. The zero value fetches the newest
// supported major version from DefaultRepository.
type Options struct {
	Major      int    // 0 = pg.MajorMax
	Repository string // "" = DefaultRepository
	CacheDir   string // folder for the binaries; "" = the user's cache, or the system's where servers cannot enter that
	// Progress is told in words what takes long; may be nil.
	Progress func(string)
}

// FetchError says that the binaries could not be had.
type FetchError struct {
	Version    string
	Repository string
	Err        error
}

func (e *FetchError) Error() string {
	return fmt.Sprintf("fetch PostgreSQL %s from %s: %v: see to it, or install a PostgreSQL server, or name another repository in DEADWIRE_POSTGRES_REPOSITORY",
		e.Version, e.Repository, e.Err)
}

// Unwrap returns the cause.
func (e *FetchError) Unwrap() error { return e.Err }

// Provider starts servers from fetched binaries.
type Provider struct {
	options Options
}

// New returns a provider. Nothing is contacted before it is used.
func New(options Options) *Provider {
	if options.Major == 0 {
		options.Major = pg.MajorMax
	}
	if options.Repository == "" {
		options.Repository = DefaultRepository
	}
	if options.Progress == nil {
		options.Progress = func(string) {}
	}
	return &Provider{options: options}
}

// Name implements pg.Provider.
func (p *Provider) Name() string { return Name }

// Available implements pg.Provider: there is a user to run servers as, a folder
// to keep the binaries in, and a version to fetch. They may still have to be
// fetched, which Prepare does.
func (p *Provider) Available(ctx context.Context) error {
	store, err := p.store()
	if err != nil {
		return err
	}
	if store.present() {
		return p.local(store).Available(ctx)
	}
	return nil
}

// Present reports whether the binaries are in the cache.
func (p *Provider) Present() bool {
	store, err := p.store()
	return err == nil && store.present()
}

// Prepare implements pg.Preparer: it fetches the binaries unless they are here.
// Its error is a *FetchError, unless ctx has ended or there is no folder for them.
func (p *Provider) Prepare(ctx context.Context) error {
	store, err := p.store()
	if err != nil {
		return err
	}
	if err := store.fill(ctx, p.options.Repository, p.options.Progress); err != nil {
		return &FetchError{Version: store.version, Repository: p.options.Repository, Err: err}
	}
	return nil
}

// Reach reports why the repository cannot be reached, by asking for its root.
func (p *Provider) Reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, p.options.Repository+"/", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return &FetchError{Version: fmt.Sprint(p.options.Major), Repository: p.options.Repository, Err: errors.Unwrap(err)}
	}
	return response.Body.Close() // whatever it answers, it is there
}

// Start implements pg.Provider. Its errors are those of Prepare and of package local.
func (p *Provider) Start(ctx context.Context, cfg pg.Config) (pg.Server, error) {
	if err := p.Prepare(ctx); err != nil {
		return nil, err
	}
	store, err := p.store()
	if err != nil {
		return nil, err
	}
	started, err := p.local(store).Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return server{started}, nil
}

func (p *Provider) local(s *store) *local.Provider {
	return local.New(local.Options{BinDir: filepath.Join(s.home(), "bin")})
}

// server is a local server under our name.
type server struct{ pg.Server }

func (server) Provider() string { return Name }

// store returns the place for the binaries, which need not exist.
func (p *Provider) store() (*store, error) {
	version, known := versions[p.options.Major]
	if !known {
		return nil, fmt.Errorf("fetch PostgreSQL %d: only majors %d to %d can be had", p.options.Major, pg.MajorMin, pg.MajorMax)
	}
	as, err := local.RunsAs()
	if err != nil {
		return nil, err
	}
	dir, err := cacheDir(p.options.CacheDir)
	if err != nil {
		return nil, err
	}
	return &store{dir: dir, version: string(version), as: as}, nil
}

// cacheDir returns the first folder that servers can be run from. Those of root's
// children that are not root may not enter root's home.
func cacheDir(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	bases := []string{"/var/cache", "/Library/Caches", "/var/tmp"}
	if user, err := os.UserCacheDir(); err == nil {
		bases = append([]string{user}, bases...)
	}
	var errs []error
	for _, base := range bases {
		dir := filepath.Join(base, "deadwire", "embedded")
		err := os.MkdirAll(dir, 0o755)
		if err == nil && local.Reaches(dir) {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("find a cache folder for PostgreSQL that its user may enter: %w", errors.Join(errs...))
}
