package external_test

import (
	"context"
	"os"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/harness/pg"
	"deadwire/harness/pg/external"
	"deadwire/harness/pg/local"
	"deadwire/harness/pg/pgtest"
)

func TestMain(m *testing.M) {
	os.Exit(pgtest.Main(m, pgtest.Makers{external.Name: makeExternal}))
}

func makeExternal(url string) pg.Provider { return external.New(url, external.Options{}) }

func TestProvider(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	pgtest.Exercise(t, func(t *testing.T) pg.Provider {
		return makeExternal(startLocal(t, cache))
	})
}

// startLocal starts a server that plays someone else's, and returns its address.
func startLocal(t *testing.T, cache string) string {
	t.Helper()
	server, err := local.New(local.Options{}).Start(t.Context(), pg.Config{Dir: t.TempDir(), CacheDir: cache})
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, server.Stop(context.Background())) })
	return server.URL(server.Address().Database)
}
