package external_test

import (
	"context"
	"errors"
	neturl "net/url"
	"os"
	"strings"
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

func TestRefusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	url := startLocal(t, t.TempDir())
	conn, err := pg.Connect(t.Context(), url)
	assert.NilError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE ROLE humble LOGIN PASSWORD 'secret'")
	assert.NilError(t, err)
	assert.NilError(t, conn.Close(t.Context()))
	humble, err := neturl.Parse(url)
	assert.NilError(t, err)
	humble.User = neturl.UserPassword("humble", "secret")
	for address, want := range map[string]string{
		"host=localhost":                        "must look like postgres://",
		"postgres://u:hidden@198.51.100.1/d":    "--allow-remote",
		"postgres://u:hidden@127.0.0.1:1/d":     "connect",
		"postgres://u:hidden@127.0.0.1:x/d":     "",
		humble.String():                         "CREATEDB",
		"postgres://u:hidden@a,198.51.100.1:/d": "",
	} {
		err := makeExternal(address).Available(t.Context())
		assert.ErrorContains(t, err, want, address)
		assert.Assert(t, !strings.Contains(err.Error(), "hidden") && !strings.Contains(err.Error(), "secret"), err.Error())
	}
}

func TestRemoteHostsAreNamed(t *testing.T) {
	t.Parallel()
	err := makeExternal("postgres://198.51.100.1/d").Available(t.Context())
	var remote *external.RemoteError
	assert.Assert(t, errors.As(err, &remote), "got %v", err)
	assert.Equal(t, remote.Host, "198.51.100.1")
}

func TestURLKeepsItsParameters(t *testing.T) {
	t.Parallel()
	url := startLocal(t, t.TempDir())
	server, err := makeExternal(url+"&connect_timeout=7&dbname=postgres").Start(t.Context(), pg.Config{Dir: t.TempDir()})
	assert.NilError(t, err)
	other, err := neturl.Parse(server.URL("oth/er"))
	assert.NilError(t, err)
	assert.Equal(t, other.Path, "/oth/er")
	assert.Equal(t, other.Query().Get("connect_timeout"), "7")
	assert.Equal(t, other.Query().Get("dbname"), "")
	assert.NilError(t, server.Stop(t.Context()))
}
