package harnesstest_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"deadwire/harness/harnesstest"
)

// roleVariable makes this test binary a program under test.
const roleVariable = "HARNESSTEST_ROLE"

func TestMain(m *testing.M) { os.Exit(harnesstest.Main(role{m})) }

// role is the tests, or the program under test that this binary was started as.
type role struct{ tests *testing.M }

func (r role) Run() int {
	if os.Getenv(roleVariable) == "leave" {
		return leave()
	}
	return r.tests.Run()
}

// leave opens a session and ends without a word to the server.
func leave() int {
	if _, err := pgx.Connect(context.Background(), os.Getenv("DATABASE_URL")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	fmt.Println("connected")
	return 3
}

// inner is the test within a test: it collects what would fail it.
type inner struct {
	*testing.T
	mu       sync.Mutex
	cleanups []func()
	errors   []string
}

func (t *inner) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

func (t *inner) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errors = append(t.errors, fmt.Sprintf(format, args...))
}

// end runs the clean-ups and returns what failed.
func (t *inner) end() string {
	for n := len(t.cleanups) - 1; n >= 0; n-- {
		t.cleanups[n]()
	}
	return strings.Join(t.errors, "\n")
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url+"&application_name=app/main")
	assert.NilError(t, err)
	return conn
}

func migrate(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "create table cards (id int)")
	return join(err, conn.Close(ctx))
}

func join(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

func TestAnOrderlyTestPasses(t *testing.T) {
	t.Parallel()
	in := &inner{T: t}
	db := harnesstest.New(in, harnesstest.Options{Migrate: migrate, Key: "cards"})
	conn := connect(t, db.URL())
	_, err := conn.Exec(t.Context(), "insert into cards values (1)")
	assert.NilError(t, err)
	assert.NilError(t, conn.Close(t.Context()))
	assert.Equal(t, in.end(), "")
}

func TestDatabasesAreTheTestsOwn(t *testing.T) {
	t.Parallel()
	count := func() (rows int) {
		db := harnesstest.New(t, harnesstest.Options{Migrate: migrate, Key: "cards"})
		conn := connect(t, db.URL())
		defer func() { assert.Check(t, conn.Close(context.Background())) }()
		assert.NilError(t, conn.QueryRow(t.Context(), "select count(*) from cards").Scan(&rows))
		_, err := conn.Exec(t.Context(), "insert into cards values (1)")
		assert.NilError(t, err)
		return rows
	}
	assert.Equal(t, count()+count(), 0)
}

func TestASessionThatTheServerEndedFailsTheTestUnlessExpected(t *testing.T) {
	t.Parallel()
	terminated := func(expect string) string {
		in := &inner{T: t}
		db := harnesstest.New(in, harnesstest.Options{Toxiproxy: true})
		if expect != "" {
			db.Expect(expect, "ma*")
		}
		conn := connect(t, db.URL())
		_, err := conn.Exec(t.Context(), "select pg_terminate_backend(pg_backend_pid())")
		assert.ErrorContains(t, err, "57P01")
		_ = conn.Close(t.Context()) // it is gone
		return in.end()
	}
	said := terminated("")
	assert.Check(t, is.Contains(said, "session 1 (main), backend.admin-terminate"))
	assert.Check(t, is.Contains(said, "PostgreSQL ended it with 57P01"))
	assert.Check(t, is.Contains(said, "mend: "))
	assert.Equal(t, terminated("backend.admin-terminate"), "")
	said = terminated("network.reset")
	assert.Check(t, is.Contains(said, `no session of "ma*" had network.reset, which was expected`))
}

func TestASessionThatNobodyClosesFailsTheTest(t *testing.T) {
	defer harnesstest.SetSettleMax(500 * time.Millisecond)()
	in := &inner{T: t}
	conn := connect(t, harnesstest.New(in).URL())
	assert.Check(t, is.Contains(in.end(), "session 1 (main) was left open: nobody closed it, idle"))
	_ = conn.Close(t.Context()) // the tap is gone
}

func TestAProgramIsWatched(t *testing.T) {
	in := &inner{T: t}
	db := harnesstest.New(in)
	self, err := os.Executable()
	assert.NilError(t, err)
	t.Setenv(roleVariable, "leave")
	program := db.Start(self)
	assert.Equal(t, program.Wait().Code, 3)
	assert.Assert(t, is.Contains(program.Output(), "connected"))
	said := in.end()
	assert.Check(t, is.Contains(said, "process.died"))
	assert.Check(t, is.Contains(said, "exited with code 3"))
	assert.Check(t, is.Contains(said, "its own process "+fmt.Sprint(program.Instance().PID())))
}
