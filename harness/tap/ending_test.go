package tap

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/harness/event"
)

func TestTerminateThenFIN(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn := b.connect()
	s := b.session()
	assert.NilError(t, conn.Close(b.ctx))
	got := manners(b.end(s))
	assert.DeepEqual(t, got[0], "frontend terminate in idle")
	assert.Equal(t, len(got), 3) // then FIN of both, in either order
	messages := b.messages(s.ID())
	assert.Equal(t, messages[len(messages)-1].Type, "Terminate")
}

func TestServerTerminatesBackend(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn := b.connect()
	s := b.session()
	_, err := b.direct().Exec(b.ctx, "select pg_terminate_backend($1)", s.BackendPID())
	assert.NilError(t, err)
	b.await("FIN of the server", func(e event.Event) bool {
		return e.Closing != nil && e.Closing.Manner == event.FIN
	})
	_, err = conn.Exec(b.ctx, "select 1")
	assert.ErrorContains(t, err, "57P01")
	got := b.end(s)
	assert.DeepEqual(t, manners(got)[:2], []string{"backend fatal in idle 57P01", "backend fin in idle"})
	assert.Equal(t, got[0].Text, "terminating connection due to administrator command")
}

func TestClientEndings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		end  func(*net.TCPConn) error
		want string
	}{
		"FIN without Terminate": {func(c *net.TCPConn) error { return c.CloseWrite() }, "frontend fin in idle"},
		"RST":                   {func(c *net.TCPConn) error { return closeRST(c) }, "frontend rst in idle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			conn := b.connect()
			s := b.session()
			raw := conn.PgConn().Conn().(*net.TCPConn)
			assert.NilError(t, tc.end(raw))
			assert.Equal(t, manners(b.end(s))[0], tc.want)
			b.backendGone(s.BackendPID())
		})
	}
}

func TestKilledClientInTransaction(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.python("cur.execute('begin'); cur.execute('select 1'); say('ready'); hear()")
	p.expect("ready")
	s := b.session()
	assert.Equal(t, s.State(), event.InTransaction)
	assert.NilError(t, p.cmd.Process.Signal(syscall.SIGKILL))
	assert.Equal(t, manners(b.end(s))[0], "frontend fin in in transaction")
	b.backendGone(s.BackendPID())
}

// stub is a server that does as the test says.
func stub(t *testing.T, serve func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c.(*net.TCPConn))
		}
	}()
	t.Cleanup(func() {
		assert.NilError(t, l.Close())
		<-done
	})
	return l.Addr().String()
}

func upstream(addr string) func(*Config) { return func(c *Config) { c.Upstream = addr } }

// dial opens a raw connection through the tap.
func (b *bench) dial() *net.TCPConn {
	b.t.Helper()
	c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(b.tap.Addr()))
	assert.NilError(b.t, err)
	b.t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestServerResetReachesClientAsReset(t *testing.T) {
	t.Parallel()
	addr := stub(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 8))
		_ = closeRST(c)
	})
	b := newBench(t, upstream(addr))
	c := b.dial()
	_, err := c.Write([]byte{0, 0, 0, 8, 0, 3, 0, 0})
	assert.NilError(t, err)
	_, err = c.Read(make([]byte, 1))
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	b.await("end", ended)
	assert.DeepEqual(t, manners(b.closings(event.SessionID{Place: event.Front, N: 1})), []string{"backend rst in startup"})
}

func ended(e event.Event) bool { return e.Kind == event.SessionEnded }

func TestHalfCloseIsKept(t *testing.T) {
	t.Parallel()
	addr := stub(t, func(c *net.TCPConn) {
		all, _ := io.ReadAll(c) // until the client's FIN
		_, _ = c.Write(all)     // and the other direction still works
		_ = c.Close()
	})
	b := newBench(t, upstream(addr))
	c := b.dial()
	hello := []byte{0, 0, 0, 8, 0, 3, 0, 0}
	_, err := c.Write(hello)
	assert.NilError(t, err)
	assert.NilError(t, c.CloseWrite())
	back, err := io.ReadAll(c)
	assert.NilError(t, err)
	assert.DeepEqual(t, back, hello)
}

func TestUnreachableServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	assert.NilError(t, l.Close())
	b := newBench(t, upstream(l.Addr().String()))
	c, err := net.Dial("tcp", b.tap.Addr().String())
	if err == nil { // else the reset was quicker than the dialler
		_, err = c.Read(make([]byte, 1))
		assert.NilError(t, c.Close())
	}
	assert.ErrorIs(t, err, syscall.ECONNRESET)
	b.await("end", ended)
	got := b.closings(event.SessionID{Place: event.Front, N: 1})
	assert.DeepEqual(t, manners(got), []string{"backend refused in startup"})
	assert.Assert(t, got[0].Text != "")
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn := b.connect()
	for range 3 {
		b.tap.Refuse(true)
		_, err := net.Dial("tcp", b.tap.Addr().String())
		assert.Assert(t, errors.Is(err, syscall.ECONNREFUSED), "%v", err)
		_, err = conn.Exec(b.ctx, "select 1") // live sessions go on
		assert.NilError(t, err)
		b.tap.Refuse(false)
		assert.NilError(t, b.connect().Close(b.ctx))
	}
}

func TestUnixUpstream(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	socket := filepath.Join(b.server.dir, ".s.PGSQL."+strconv.Itoa(b.server.port))
	b = newBench(t, upstream(socket), func(c *Config) { c.Network = "unix" })
	conn := b.connect()
	s := b.session()
	_, err := conn.Exec(b.ctx, "select 1")
	assert.NilError(t, err)
	assert.NilError(t, s.Cut(CutRST, "f1"))
	_, err = conn.Exec(b.ctx, "select 1")
	assert.ErrorContains(t, err, "connection reset by peer")
	assert.DeepEqual(t, manners(b.end(s)), []string{"frontend rst in idle f1", "backend rst in idle f1"})
	b.backendGone(s.BackendPID())
}
