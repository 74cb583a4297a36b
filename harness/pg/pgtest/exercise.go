package pgtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"gotest.tools/v3/assert"

	"deadwire/harness/pg"
)

// patience bounds every single wait of the suite. It is long, since tests may
// share a small machine with others.
const patience = 2 * time.Minute

// Factory makes a provider that is ready to start a server, and whatever it
// needs, which it cleans up with t.
type Factory func(t *testing.T) pg.Provider

// Option says in what a provider differs from the rest.
type Option func(*suite)

// Contained says that servers run in containers, where pids are none of this
// system's and no address is loopback. left returns what there still is of a
// server at an address: containers, volumes.
func Contained(left func(*testing.T, pg.Address) []string) Option {
	return func(s *suite) { s.left = left }
}

// Exercise runs the suite. The servers share one cache of initialised folders.
func Exercise(t *testing.T, factory Factory, options ...Option) {
	s := &suite{factory: factory, cache: t.TempDir()}
	for _, option := range options {
		option(s)
	}
	for name, test := range map[string]func(*suite, *testing.T){
		"accepts sessions":             (*suite).acceptsSessions,
		"applies settings":             (*suite).appliesSettings,
		"masks the password":           (*suite).masksPassword,
		"restarts fast":                func(s *suite, t *testing.T) { s.restarts(t, pg.Fast) },
		"restarts immediately":         func(s *suite, t *testing.T) { s.restarts(t, pg.Immediate) },
		"crashes one backend":          (*suite).crashesBackend,
		"leaves strangers alone":       (*suite).leavesStrangersAlone,
		"logs by backend":              (*suite).logsByBackend,
		"stops and leaves nothing":     (*suite).stops,
		"stops after its caller left":  (*suite).stopsWithoutCaller,
		"builds a template once":       (*suite).buildsTemplateOnce,
		"rebuilds a half-made one":     (*suite).rebuildsHalfMade,
		"retries a failed build":       (*suite).retriesFailedBuild,
		"clones are isolated":          (*suite).clonesAreIsolated,
		"clones survive a restart":     (*suite).clonesAfterRestart,
		"drops only its own databases": (*suite).dropsOnlyOwn,
		"killed, leaves nothing":       (*suite).killedLeavesNothing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(s, t)
		})
	}
}

type suite struct {
	factory Factory
	cache   string
	left    func(*testing.T, pg.Address) []string // nil: servers are processes of this system
}

// start returns a running server that is stopped with t, and what it logs.
func (s *suite) start(t *testing.T) (pg.Server, *entries) {
	t.Helper()
	log := &entries{}
	server := s.startWith(t, pg.Config{OnLog: log.add})
	return server, log
}

func (s *suite) startWith(t *testing.T, cfg pg.Config) pg.Server {
	t.Helper()
	provider := s.factory(t)
	ctx := bounded(t)
	assert.NilError(t, provider.Available(ctx))
	cfg.Dir, cfg.CacheDir = t.TempDir(), s.cache
	server, err := provider.Start(ctx, cfg)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, server.Stop(context.Background())) })
	assert.Equal(t, server.Provider(), provider.Name())
	return server
}

// bounded returns a context that ends with patience.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// open opens a session as a subject would.
func open(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	assert.NilError(t, err)
	cfg.RuntimeParams["application_name"] = "pgtest"
	conn, err := pgx.ConnectConfig(bounded(t), cfg)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // often cut by then, on purpose
	return conn
}

func openMaintenance(t *testing.T, server pg.Server) *pgx.Conn {
	t.Helper()
	return open(t, server.URL(server.Address().Database))
}

// ask returns the one value that a query gives.
func ask[T any](t *testing.T, conn *pgx.Conn, query string, args ...any) T {
	t.Helper()
	var value T
	assert.NilError(t, conn.QueryRow(bounded(t), query, args...).Scan(&value))
	return value
}

func do(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	_, err := conn.Exec(bounded(t), statement)
	assert.NilError(t, err)
}

// refused checks that a power is lacking and says why, and reports whether it is.
func refused(t *testing.T, server pg.Server, power pg.Power, err error) bool {
	t.Helper()
	if server.Can(power) == nil {
		return false
	}
	var lacking *pg.NotOursError
	assert.Assert(t, fmt.Sprint(err) != "")
	assert.ErrorIs(t, err, pg.ErrNotOurs)
	assert.ErrorType(t, err, lacking)
	return true
}
