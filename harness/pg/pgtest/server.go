package pgtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"deadwire/harness/pg"
)

func (s *suite) acceptsSessions(t *testing.T) {
	server, _ := s.start(t)
	conn := openMaintenance(t, server)
	number := ask[int](t, conn, "SELECT current_setting('server_version_num')::int")
	assert.Equal(t, server.Version(), pg.VersionOfNumber(number))
	address := server.Address()
	assert.Equal(t, ask[int](t, conn, "SELECT inet_server_port()"), address.Port)
	assert.Equal(t, ask[string](t, conn, "SELECT current_user"), address.User)
	admin, err := pg.Admin(bounded(t), server)
	assert.NilError(t, err)
	defer func() { assert.Check(t, admin.Close(context.Background())) }()
	assert.Equal(t, ask[string](t, admin, "SELECT current_setting('application_name')"), pg.AdminName)
	if address.SocketDir != "" {
		local := open(t, address.SocketURL(address.Database))
		assert.Assert(t, ask[bool](t, local, "SELECT inet_server_addr() IS NULL"))
	}
}

func (s *suite) appliesSettings(t *testing.T) {
	provider, ctx := s.factory(t), bounded(t)
	server, err := provider.Start(ctx, pg.Config{
		Dir: t.TempDir(), CacheDir: s.cache, Settings: map[string]string{"idle_in_transaction_session_timeout": "1234ms"},
	})
	if errors.Is(err, pg.ErrNotOurs) {
		return
	}
	assert.NilError(t, err)
	defer func() { assert.Check(t, server.Stop(ctx)) }()
	conn := openMaintenance(t, server)
	assert.Equal(t, ask[string](t, conn, "SHOW idle_in_transaction_session_timeout"), "1234ms")
	assert.Equal(t, ask[string](t, conn, "SHOW synchronous_commit"), "on")
	if s.left == nil {
		assert.Equal(t, ask[string](t, conn, "SHOW listen_addresses"), "127.0.0.1")
	}
	assert.Equal(t, server.Address().Host, "127.0.0.1")
}

func (s *suite) masksPassword(t *testing.T) {
	server, log := s.start(t)
	address := server.Address()
	secret := address.Password.Reveal()
	text, err := json.Marshal(address)
	assert.NilError(t, err)
	for _, shown := range []string{
		fmt.Sprint(address), fmt.Sprintf("%+v %#v %x", address, address, address.Password), string(text),
	} {
		assert.Assert(t, !strings.Contains(shown, secret), "shown as %s", shown)
	}
	wrong := url.UserPassword(address.User, "wrong")
	_, err = pg.Connect(bounded(t), fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", wrong, address.HostPort(), address.Database))
	var refusal *pgconn.PgError
	assert.Assert(t, errors.As(err, &refusal), "a wrong password gave %v", err)
	assert.Equal(t, refusal.Code, "28P01")
	for _, entry := range log.all() {
		assert.Assert(t, !strings.Contains(entry.Text, secret))
	}
}

func (s *suite) restarts(t *testing.T, mode pg.Mode) {
	server, _ := s.start(t)
	if refused(t, server, pg.ToRestart, server.Restart(bounded(t), mode)) {
		return
	}
	conn := openMaintenance(t, server)
	do(t, conn, "CREATE TABLE kept AS SELECT 42 AS n")
	address, pid := server.Address(), server.PID()
	assert.NilError(t, server.Restart(bounded(t), mode))
	assert.Equal(t, server.Address(), address)
	assert.Assert(t, server.PID() != pid)
	_, err := conn.Exec(bounded(t), "SELECT 1")
	assert.ErrorContains(t, err, "", "a session outlived the restart")
	assert.Equal(t, ask[int](t, openMaintenance(t, server), "SELECT n FROM kept"), 42)
}

func (s *suite) crashesBackend(t *testing.T) {
	server, _ := s.start(t)
	victim, other := openMaintenance(t, server), openMaintenance(t, server)
	do(t, other, "CREATE TABLE kept AS SELECT 42 AS n")
	err := server.CrashBackend(bounded(t), int(victim.PgConn().PID()))
	if refused(t, server, pg.ToCrash, err) {
		return
	}
	assert.NilError(t, err)
	pid := server.PID()
	for _, conn := range []string{"victim", "other"} {
		_, err := map[string]interface {
			Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
		}{"victim": victim, "other": other}[conn].Exec(bounded(t), "SELECT 1")
		assert.Assert(t, err != nil, "the session of the %s outlived the crash", conn)
	}
	assert.Equal(t, ask[int](t, openMaintenance(t, server), "SELECT n FROM kept"), 42)
	assert.Equal(t, server.PID(), pid, "the postmaster should have survived")
}

func (s *suite) leavesStrangersAlone(t *testing.T) {
	server, _ := s.start(t)
	conn := openMaintenance(t, server)
	err := server.CrashBackend(bounded(t), os.Getpid()) // we are no backend
	if !refused(t, server, pg.ToCrash, err) {
		var stranger *pg.NotBackendError
		assert.Assert(t, errors.As(err, &stranger), "got %v", err)
	}
	do(t, conn, "SELECT 1")
}

func (s *suite) stops(t *testing.T) {
	server, _ := s.start(t)
	conn := openMaintenance(t, server)
	databases := pg.NewDatabases(server)
	name, err := databases.Template(bounded(t), "stops", func(context.Context, string) error { return nil })
	assert.NilError(t, err)
	_, err = databases.Clone(bounded(t), name)
	assert.NilError(t, err)
	address, pid := server.Address(), server.PID()
	assert.NilError(t, server.Stop(bounded(t)))
	assert.NilError(t, server.Stop(bounded(t)), "stopping twice")
	if pid == 0 {
		assert.Equal(t, databasesLeft(t, conn), 0)
		return
	}
	s.assertEnded(t, pid, address)
}

func (s *suite) stopsWithoutCaller(t *testing.T) {
	server, _ := s.start(t)
	address, pid := server.Address(), server.PID()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.NilError(t, server.Stop(ctx))
	if pid != 0 {
		s.assertEnded(t, pid, address)
	}
}

// assertEnded checks that nothing of a server of ours is left.
func (s *suite) assertEnded(t *testing.T, postmaster int, address pg.Address) {
	t.Helper()
	s.awaitEnd(t, address, postmaster)
	_, err := net.DialTimeout("tcp", address.HostPort(), patience)
	assert.Assert(t, err != nil, "someone still listens on %s", address.HostPort())
	if address.SocketDir != "" {
		_, err = os.Stat(address.SocketDir)
		assert.Assert(t, is.ErrorIs(err, os.ErrNotExist))
	}
}
