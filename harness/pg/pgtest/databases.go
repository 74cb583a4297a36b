package pgtest

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
	"gotest.tools/v3/assert"

	"deadwire/harness/pg"
)

// countDatabases counts databases of ours.
const countDatabases = "SELECT count(*) FROM pg_database WHERE starts_with(datname, '" + pg.Prefix + "')"

func databasesLeft(t *testing.T, conn *pgx.Conn) int {
	t.Helper()
	return ask[int](t, conn, countDatabases)
}

// seed is a build of a template: a table with one row. It leaves its session to
// the server on purpose, as a careless build would.
func seed(t *testing.T) func(context.Context, string) error {
	return func(ctx context.Context, url string) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) }) // cut by then
		_, err = conn.Exec(ctx, "CREATE TABLE seeded AS SELECT 7 AS n")
		return err
	}
}

func (s *suite) buildsTemplateOnce(t *testing.T) {
	server, _ := s.start(t)
	// Two Databases stand for two processes: they share nothing but the server.
	var built [8]string
	count := make(chan struct{}, len(built))
	sides := []*pg.Databases{pg.NewDatabases(server), pg.NewDatabases(server)}
	var callers errgroup.Group
	for i := range built {
		callers.Go(func() (err error) {
			built[i], err = sides[i%2].Template(bounded(t), "once", func(ctx context.Context, url string) error {
				count <- struct{}{}
				return seed(t)(ctx, url)
			})
			return err
		})
	}
	assert.NilError(t, callers.Wait())
	assert.Equal(t, len(count), 1)
	for _, name := range built {
		assert.Equal(t, name, built[0])
	}
	conn := openMaintenance(t, server)
	assert.Assert(t, ask[bool](t, conn, "SELECT datistemplate AND NOT datallowconn FROM pg_database WHERE datname = $1", built[0]))
	assert.NilError(t, sides[0].Close(bounded(t)))
	assert.Equal(t, databasesLeft(t, conn), 1, "the other side still uses the template")
	assert.NilError(t, sides[1].Close(bounded(t)))
	assert.Equal(t, databasesLeft(t, conn), 0, "the last one out drops the template")
}

func (s *suite) rebuildsHalfMade(t *testing.T) {
	server, _ := s.start(t)
	first := pg.NewDatabases(server)
	name, err := first.Template(bounded(t), "half", seed(t))
	assert.NilError(t, err)
	assert.NilError(t, first.Close(bounded(t)))
	// What a maker leaves that was killed before it was done:
	conn := openMaintenance(t, server)
	do(t, conn, "CREATE DATABASE "+name)
	databases := pg.NewDatabases(server)
	again, err := databases.Template(bounded(t), "half", seed(t))
	assert.NilError(t, err)
	assert.Equal(t, again, name)
	db, err := databases.Clone(bounded(t), name)
	assert.NilError(t, err)
	assert.Equal(t, ask[int](t, open(t, db.URL()), "SELECT n FROM seeded"), 7)
}

func (s *suite) retriesFailedBuild(t *testing.T) {
	server, _ := s.start(t)
	databases := pg.NewDatabases(server)
	broken := errors.New("migration 3 is broken")
	_, err := databases.Template(bounded(t), "fails", func(context.Context, string) error { return broken })
	assert.ErrorIs(t, err, broken)
	assert.Equal(t, databasesLeft(t, openMaintenance(t, server)), 0)
	_, err = databases.Template(bounded(t), "fails", seed(t))
	assert.NilError(t, err)
}

func (s *suite) clonesAreIsolated(t *testing.T) {
	server, _ := s.start(t)
	databases := pg.NewDatabases(server)
	name, err := databases.Template(bounded(t), "isolated", seed(t))
	assert.NilError(t, err)
	var clones [4]*pg.Database
	var makers errgroup.Group
	for i := range clones {
		makers.Go(func() (err error) {
			clones[i], err = databases.Clone(bounded(t), name)
			return err
		})
	}
	assert.NilError(t, makers.Wait())
	one := open(t, clones[0].URL())
	do(t, one, "UPDATE seeded SET n = 8")
	assert.Equal(t, ask[int](t, open(t, clones[1].URL()), "SELECT n FROM seeded"), 7)
	assert.NilError(t, clones[0].Drop(bounded(t)), "with a session in it")
	assert.NilError(t, clones[0].Drop(bounded(t)), "dropping twice")
	_, err = one.Exec(bounded(t), "SELECT 1")
	assert.Assert(t, err != nil, "the session should have been ended")
}

func (s *suite) clonesAfterRestart(t *testing.T) {
	server, _ := s.start(t)
	if server.Can(pg.ToRestart) != nil {
		return
	}
	databases := pg.NewDatabases(server)
	name, err := databases.Template(bounded(t), "restart", seed(t))
	assert.NilError(t, err)
	before, err := databases.Clone(bounded(t), name)
	assert.NilError(t, err)
	assert.NilError(t, server.Restart(bounded(t), pg.Immediate))
	after, err := databases.Clone(bounded(t), name)
	assert.NilError(t, err)
	for _, db := range []*pg.Database{before, after} {
		assert.Equal(t, ask[int](t, open(t, db.URL()), "SELECT n FROM seeded"), 7)
	}
}

func (s *suite) dropsOnlyOwn(t *testing.T) {
	server, _ := s.start(t)
	databases := pg.NewDatabases(server)
	conn := openMaintenance(t, server)
	do(t, conn, "CREATE DATABASE strangers")
	var foreign *pg.NotDatabaseError
	err := databases.Drop(bounded(t), "strangers")
	assert.Assert(t, errors.As(err, &foreign), "got %v", err)
	assert.NilError(t, databases.Close(bounded(t)))
	assert.Equal(t, ask[int](t, conn, "SELECT count(*) FROM pg_database WHERE datname = 'strangers'"), 1)
	_, err = databases.Clone(bounded(t), "template1")
	assert.ErrorContains(t, err, "closed")
}
