package external_test

import (
	"context"
	"errors"
	neturl "net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"gotest.tools/v3/assert"

	"deadwire/harness/pg"
	"deadwire/harness/pg/external"
	"deadwire/harness/pg/local"
	"deadwire/harness/pg/pgtest"
	"deadwire/harness/wait"
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

// The server goes on with the CREATE DATABASE of a client that was killed, and
// shows the database only when it has finished.
func TestSweepWaitsForADatabaseThatIsBeingMade(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	url := startLocal(t, t.TempDir())
	gate, watch := connect(t, url), connect(t, url)
	// A comment that is not committed keeps others from copying the database:
	// ShareUpdateExclusiveLock against CREATE DATABASE's ShareLock on the template.
	execute(t, gate, "CREATE DATABASE gated TEMPLATE template0", "BEGIN", "COMMENT ON DATABASE gated IS 'busy'")
	cutOff := ask(t, url, "CREATE DATABASE "+orphan+" TEMPLATE gated")
	seen(ctx, t, watch, "query LIKE 'CREATE DATABASE %' AND wait_event_type = 'Lock'")
	cutOff()

	server, err := makeExternal(url).Start(ctx, pg.Config{Dir: t.TempDir()})
	assert.NilError(t, err)
	next := make(chan error, 1)
	go func() {
		_, err := pg.NewDatabases(server).Clone(ctx, "template0")
		next <- err
	}()
	seen(ctx, t, watch, "pid <> pg_backend_pid() AND query LIKE '%state_change%'")
	assert.Assert(t, len(next) == 0, "the next start did not wait")
	execute(t, gate, "COMMIT")
	assert.NilError(t, <-next)
	var left bool
	assert.NilError(t, watch.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", orphan).Scan(&left))
	assert.Assert(t, !left)
	assert.NilError(t, server.Stop(ctx))
}

// orphan is the database of a run that is no more.
const orphan = pg.Prefix + "run_00000000dead_1"

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pg.Connect(t.Context(), url)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, conn.Close(context.Background())) })
	return conn
}

// ask sends a statement and returns what closes the socket, as the kernel does for
// a killed client: without Terminate, and without the request to cancel that pgx
// sends for a session that it gives up.
func ask(t *testing.T, url, sql string) (cutOff func()) {
	t.Helper()
	conn, err := pg.Connect(t.Context(), url)
	assert.NilError(t, err)
	raw, err := conn.PgConn().Hijack()
	assert.NilError(t, err)
	raw.Frontend.SendQuery(&pgproto3.Query{String: sql})
	assert.NilError(t, raw.Frontend.Flush())
	return func() { assert.NilError(t, raw.Conn.Close()) }
}

func execute(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		_, err := conn.Exec(t.Context(), sql)
		assert.NilError(t, err, sql)
	}
}

// seen waits until a session of the server meets the condition.
func seen(ctx context.Context, t *testing.T, watch *pgx.Conn, condition string) {
	t.Helper()
	assert.NilError(t, wait.For(ctx, "a session with "+condition, func(ctx context.Context) wait.Answer {
		var found bool
		if err := watch.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE "+condition+")").Scan(&found); err != nil {
			return wait.Never(err)
		}
		if !found {
			return wait.NotYet("none")
		}
		return wait.Done()
	}))
}
