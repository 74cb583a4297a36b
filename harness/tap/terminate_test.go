package tap

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"gotest.tools/v3/assert"

	"deadwire/harness/event"
)

func terminate(c *Config) { c.TLS = TLSTerminate }

// anyServer is what sslmode=require takes.
func anyServer(c *Config) { c.ServerTLS = &tls.Config{InsecureSkipVerify: true} }

func (b *bench) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	assert.Assert(b.t, pool.AppendCertsFromPEM(b.tap.RootPEM()))
	return pool
}

// rootFile writes the run's CA, for sslrootcert.
func (b *bench) rootFile() string {
	path := filepath.Join(b.t.TempDir(), "root.pem")
	assert.NilError(b.t, os.WriteFile(path, b.tap.RootPEM(), 0o644))
	return path
}

// verified connects as user over TLS, with more settings.
func (b *bench) verified(user, more string) (*pgx.Conn, error) {
	u := b.server.url(b.tap.Addr().String())
	u = strings.Replace(u, "sslmode=disable", "sslmode=verify-full&sslrootcert="+b.rootFile()+more, 1)
	cfg, err := pgx.ParseConfig(strings.Replace(u, "//postgres:", "//"+user+":", 1))
	assert.NilError(b.t, err)
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &ahead{leg: conn.(leg)}, nil
	}
	conn, err := pgx.ConnectConfig(b.ctx, cfg)
	if err == nil {
		b.t.Cleanup(func() { _ = conn.Close(b.ctx) })
	}
	return conn, err
}

func TestTerminatedTLSIsReadable(t *testing.T) {
	t.Parallel()
	b := newBench(t, terminate, full)
	conn, err := b.verified("postgres", "")
	assert.NilError(t, err)
	var n, size int
	assert.NilError(t, conn.QueryRow(b.ctx, "/* here */ select 6*7, length($1)", strings.Repeat("x", 1<<20)).Scan(&n, &size))
	assert.Equal(t, n, 42)
	assert.Equal(t, size, 1<<20)
	s := b.session()
	assert.NilError(t, conn.Close(b.ctx))
	assert.Equal(t, manners(b.end(s))[0], "frontend terminate in idle")
	all := b.messages(s.ID())
	assert.Equal(t, len(of(all, event.Frontend, "SSLRequest")), 1)
	assert.Equal(t, of(all, event.Frontend, "Parse")[0].Label, "here")
	b.backendGone(s.BackendPID())
}

func TestTerminatedTLSForLibpq(t *testing.T) {
	t.Parallel()
	b := newBench(t, terminate, full)
	p := b.python("cur.execute('select 6*7'); say(cur.fetchone()[0]); hear(); conn.close(); say('bye')",
		"MODE=verify-full", "PGSSLROOTCERT="+b.rootFile())
	p.expect("42")
	s := b.session()
	p.tell("go on")
	p.expect("bye")
	assert.Equal(t, manners(b.end(s))[0], "frontend terminate in idle")
	assert.Equal(t, len(of(b.messages(s.ID()), event.Frontend, "TLS alert")), 1, "the close_notify")
}

func TestChannelBindingCannotWorkAndIsExplained(t *testing.T) {
	t.Parallel()
	b := newBench(t, terminate)
	p := b.python("", "MODE=require", "PGCHANNELBINDING=require")
	assert.Assert(t, p.cmd.Wait() != nil)
	b.await("end", ended)
	all := b.closings(event.SessionID{Place: event.Front, N: 1})
	assert.Equal(t, manners(all)[0], "frontend fin in startup")
	assert.Assert(t, strings.Contains(all[0].Text, "channel binding, which cannot work"), all[0].Text)
}

// forked is a child that shares its parent's session; libpq's own close says Terminate.
const forked = `
cur.execute('select 1')
child = os.fork()
if child == 0:
    %s
    os._exit(0)
os.waitpid(child, 0)
try:
    cur.execute('select 2')
    cur.execute('select 3')
    say('works')
except psycopg2.Error as e:
    say(str(e).strip().splitlines()[0])
hear()
`

func TestSharedTLSIsNamedByWhatTheTapSees(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ child, error, want string }{
		"child closes": {"conn.close()", "closed", "frontend terminate in idle"},
		"child uses":   {"cur.execute('select 7')", "bad record mac", "frontend desync in idle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, terminate)
			p := b.python(strings.Replace(forked, "%s", tc.child, 1), "MODE=require")
			got := p.line()
			assert.Assert(t, strings.Contains(got, tc.error), got)
			p.tell("done")
			b.await("end", ended)
			all := b.closings(event.SessionID{Place: event.Front, N: 1})
			assert.Equal(t, manners(all)[0], tc.want)
		})
	}
}

func TestDirectTLS(t *testing.T) {
	t.Parallel()
	b := newBench(t, terminate, full)
	conn, err := b.verified("postgres", "&sslnegotiation=direct")
	assert.NilError(t, err)
	assert.NilError(t, conn.Ping(b.ctx))
	assert.Equal(t, len(of(b.messages(b.session().ID()), event.Frontend, "SSLRequest")), 0)
}

func TestUnwelcomeClients(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		config *tls.Config
		want   string
	}{
		"direct without ALPN":  {&tls.Config{InsecureSkipVerify: true}, "without ALPN"},
		"another protocol":     {&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}, "unsupported application protocols"},
		"TLS 1.2 only":         {&tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, NextProtos: []string{protocolALPN}}, "unsupported versions"},
		"without the run's CA": {&tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost", NextProtos: []string{protocolALPN}}, "bad certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, terminate)
			c := tls.Client(b.dial(), tc.config)
			_ = c.Handshake() // some learn of it only when they read
			_, err := c.Read(make([]byte, 1))
			assert.Assert(t, err != nil)
			b.await("end", ended)
			all := b.closings(event.SessionID{Place: event.Front, N: 1})
			assert.Equal(t, manners(all)[0], "frontend refused in startup")
			assert.Assert(t, strings.Contains(all[0].Text, tc.want), all[0].Text)
		})
	}
}

func TestCertificateNamesWhatTheClientAskedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t, terminate)
	for _, name := range []string{"localhost", "127.0.0.1", "db.shop.example", "db.shop.example"} {
		c := tls.Client(b.dial(), &tls.Config{RootCAs: b.roots(), ServerName: name, NextProtos: []string{protocolALPN}})
		assert.NilError(t, c.Handshake(), name)
		assert.NilError(t, c.Close())
	}
}

func TestSlowClientsEndWithTheTap(t *testing.T) {
	t.Parallel()
	b := newBench(t, terminate)
	for _, said := range []string{"", "\x00\x00\x00", "\x16\x03\x01", "\x16\x03\x01\x00\x05\x01\x00\x00"} {
		_, err := b.dial().Write([]byte(said))
		assert.NilError(t, err)
	}
	b.await("all are there", func(event.Event) bool { return len(b.tap.Sessions()) == 4 })
	began := time.Now()
	assert.NilError(t, b.tap.Close(b.ctx))
	assert.Assert(t, time.Since(began) < 30*time.Second)
}

func TestStartupWithoutTLSInTerminateMode(t *testing.T) {
	t.Parallel()
	b := newBench(t, terminate, full)
	conn := b.connect()
	assert.NilError(t, conn.Ping(b.ctx))
	c := b.dial()
	_, err := c.Write([]byte{0, 0, 0, 8, 4, 210, 22, 48}) // GSSENCRequest
	assert.NilError(t, err)
	answer := make([]byte, 1)
	_, err = io.ReadFull(c, answer)
	assert.NilError(t, err)
	assert.Equal(t, string(answer), "N")
	start, err := (&pgproto3.StartupMessage{ProtocolVersion: 196608, Parameters: map[string]string{"user": "postgres"}}).Encode(nil)
	assert.NilError(t, err)
	_, err = c.Write(start)
	assert.NilError(t, err)
	_, err = io.ReadFull(c, answer)
	assert.NilError(t, err)
	assert.Equal(t, string(answer), "R")
}

// A real server that exits says close_notify; a killed one and a network do not.
func TestGoodbyesUnderTLS(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		end  func(*bench, *Session) error
		want string
	}{
		"server exits": {func(b *bench, s *Session) error {
			_, err := b.direct().Exec(b.ctx, "select pg_terminate_backend($1)", s.BackendPID())
			return err
		}, "close_notify"},
		"network closes": {func(_ *bench, s *Session) error { return s.Cut(CutFIN, "x") }, "fin"},
		"network resets": {func(_ *bench, s *Session) error { return s.Cut(CutRST, "x") }, "rst"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, terminate)
			conn, err := b.verified("postgres", "")
			assert.NilError(t, err)
			hijacked, err := conn.PgConn().Hijack()
			assert.NilError(t, err)
			defer func() { _ = hijacked.Conn.Close() }()
			assert.NilError(t, tc.end(b, b.session()))
			assert.Equal(t, howItEnded(hijacked.Conn.(*tls.Conn)), tc.want)
		})
	}
}

// howItEnded reads a connection to its end.
func howItEnded(c *tls.Conn) string {
	_, err := io.Copy(io.Discard, c)
	switch {
	case err != nil:
		return "rst"
	case c.NetConn().(*ahead).ended:
		return "fin"
	}
	return "close_notify"
}

func TestServerThatDemandsTLS(t *testing.T) {
	t.Parallel()
	s, err := secureServer()
	assert.NilError(t, err)
	admin, err := pgx.Connect(t.Context(), s.url(s.addr()))
	assert.NilError(t, err)
	defer func() { _ = admin.Close(context.Background()) }()
	_, err = admin.Exec(t.Context(), "drop role if exists secured, other; create role secured login password '"+password+"'; create role other login password '"+password+"'")
	assert.NilError(t, err)

	t.Run("from a client without", func(t *testing.T) {
		b := newBenchOf(t, s, anyServer)
		conn, err := pgx.Connect(b.ctx, strings.Replace(s.url(b.tap.Addr().String()), "//postgres:", "//secured:", 1))
		assert.NilError(t, err)
		assert.NilError(t, conn.Ping(b.ctx))
		assert.NilError(t, conn.Close(b.ctx))
		b.await("end", ended)
	})
	t.Run("from one with it", func(t *testing.T) {
		b := newBenchOf(t, s, terminate, anyServer)
		conn, err := b.verified("secured", "&channel_binding=disable")
		assert.NilError(t, err)
		assert.NilError(t, conn.Ping(b.ctx))
	})
	t.Run("from one that binds the channel", func(t *testing.T) {
		b := newBenchOf(t, s, terminate, anyServer)
		_, err := b.verified("secured", "&channel_binding=prefer")
		assert.ErrorContains(t, err, "channel binding")
		b.await("end", ended)
		assert.Assert(t, strings.Contains(b.closings(event.SessionID{Place: event.Front, N: 1})[0].Text, "channel_binding=disable"))
	})
	t.Run("passed through, bound", func(t *testing.T) {
		b := newBenchOf(t, s, func(c *Config) { c.TLS = TLSPassthrough })
		u := strings.Replace(s.url(b.tap.Addr().String()), "sslmode=disable", "sslmode=require&channel_binding=require", 1)
		conn, err := pgx.Connect(b.ctx, strings.Replace(u, "//postgres:", "//secured:", 1))
		assert.NilError(t, err)
		assert.NilError(t, conn.Close(b.ctx))
	})
	t.Run("which does not verify", func(t *testing.T) {
		b := newBenchOf(t, s, func(c *Config) { c.ServerTLS = &tls.Config{ServerName: "localhost"} })
		_, err := pgx.Connect(b.ctx, s.url(b.tap.Addr().String()))
		assert.Assert(t, err != nil)
		b.await("end", ended)
		all := b.closings(event.SessionID{Place: event.Front, N: 1})
		assert.Equal(t, manners(all)[0], "backend refused in startup")
		assert.Assert(t, strings.Contains(all[0].Text, "certificate"), all[0].Text)
	})
}

func TestServerThatOffersNoTLS(t *testing.T) {
	t.Parallel()
	b := newBench(t, anyServer)
	_, err := pgx.Connect(b.ctx, b.server.url(b.tap.Addr().String()))
	assert.Assert(t, err != nil)
	b.await("end", ended)
	all := b.closings(event.SessionID{Place: event.Front, N: 1})
	assert.Assert(t, strings.Contains(all[0].Text, "offers none"), all[0].Text)
}
