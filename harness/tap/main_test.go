package tap

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"deadwire/harness/event"
	"deadwire/harness/wait"

	"gotest.tools/v3/assert"
)

const password = "opensesame-k4dR"

// testServer is a PostgreSQL of our own, started by the first test that wants it, and
// secureServer one that also offers TLS; running are the ones to stop. A fuzzing
// worker never wants one.
var (
	testServer   = sync.OnceValues(func() (*server, error) { return startServer() })
	secureServer = sync.OnceValues(func() (*server, error) { return startServer(offerTLS) })
	running      sync.Map
)

func TestMain(m *testing.M) {
	code := m.Run()
	running.Range(func(s, _ any) bool {
		s.(*server).stop()
		return true
	})
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

type server struct {
	dir  string
	port int
	cmd  *exec.Cmd
}

func startServer(more ...func(data string) error) (*server, error) {
	dir, err := os.MkdirTemp("", "tap-postgres-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	if err := s.start(more); err != nil {
		s.stop()
		return nil, err
	}
	running.Store(s, true)
	return s, nil
}

func (s *server) start(more []func(data string) error) error {
	pw := filepath.Join(s.dir, "pw")
	if err := os.WriteFile(pw, []byte(password), 0o644); err != nil {
		return err
	}
	if err := chown(s.dir); err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	initdb := command("initdb", "-D", data, "-U", "postgres", "-A", "scram-sha-256", "--pwfile", pw, "-N", "-E", "UTF8")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	for _, m := range more {
		if err := m(data); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.port = l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return err
	}
	s.cmd = command("postgres", "-D", data, "-c", "fsync=off", "-c", "listen_addresses=127.0.0.1",
		"-c", "max_connections=300", "-c", "unix_socket_directories="+s.dir, "-p", strconv.Itoa(s.port))
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return wait.For(ctx, "PostgreSQL", func(ctx context.Context) wait.Answer {
		conn, err := pgx.Connect(ctx, s.url(s.addr()))
		if err != nil {
			return wait.NotYet("%v", err)
		}
		_ = conn.Close(ctx)
		return wait.Done()
	})
}

func (s *server) stop() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(syscall.SIGQUIT)
		_ = s.cmd.Wait()
	}
	_ = os.RemoveAll(s.dir)
}

func (s *server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *server) url(addr string) string {
	return fmt.Sprintf("postgres://postgres:%s@%s/postgres?sslmode=disable", password, addr)
}

// command runs a program of the server, as an unprivileged user when we are root.
func command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join("/usr/lib/postgresql/15/bin", name), args...)
	cmd.Dir = "/"
	if uid, gid, ok := unprivileged(); ok {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	return cmd
}

func chown(dir string) error {
	if uid, gid, ok := unprivileged(); ok {
		return os.Chown(dir, uid, gid)
	}
	return nil
}

func unprivileged() (uid, gid int, ok bool) {
	u, err := user.Lookup("postgres")
	if err != nil || os.Getuid() != 0 {
		return 0, 0, false
	}
	uid, _ = strconv.Atoi(u.Uid)
	gid, _ = strconv.Atoi(u.Gid)
	return uid, gid, true
}

// bench is a tap before the real server, with its journal.
type bench struct {
	t       *testing.T
	ctx     context.Context
	tap     *Tap
	journal *event.Journal
	server  *server
}

func newBench(t *testing.T, change ...func(*Config)) *bench {
	t.Helper()
	s, err := testServer()
	assert.NilError(t, err)
	return newBenchOf(t, s, change...)
}

func newBenchOf(t *testing.T, s *server, change ...func(*Config)) *bench {
	t.Helper()
	b := &bench{t: t, journal: event.NewJournal(nil, 0), server: s}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // a busy machine needs its time
	b.ctx = ctx
	cfg := Config{Place: event.Front, Upstream: s.addr(), Recorder: b.journal}
	for _, c := range change {
		c(&cfg)
	}
	var err error
	b.tap, err = Start(ctx, cfg)
	assert.NilError(t, err)
	t.Cleanup(func() {
		assert.NilError(t, b.tap.Close(ctx))
		cancel()
		if t.Failed() {
			b.dump()
		}
	})
	return b
}

func (b *bench) dump() {
	for _, e := range b.journal.Events() {
		b.t.Logf("%4d %12s %s %s %+v %+v %+v", e.Seq, e.At, e.Session, e.Kind, deref(e.Message), deref(e.Closing), deref(e.Named))
	}
}

func deref[T any](p *T) any {
	if p == nil {
		return ""
	}
	return *p
}

// connect opens a pgx connection through the tap.
func (b *bench) connect() *pgx.Conn {
	b.t.Helper()
	cfg, err := pgx.ParseConfig(b.server.url(b.tap.Addr().String()))
	assert.NilError(b.t, err)
	cfg.RuntimeParams["application_name"] = "bench"
	conn, err := pgx.ConnectConfig(b.ctx, cfg)
	assert.NilError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close(b.ctx) })
	return conn
}

// direct opens a pgx connection past the tap.
func (b *bench) direct() *pgx.Conn {
	b.t.Helper()
	conn, err := pgx.Connect(b.ctx, b.server.url(b.server.addr()))
	assert.NilError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close(b.ctx) })
	return conn
}

// session returns the only live session.
func (b *bench) session() *Session {
	b.t.Helper()
	live := b.tap.Sessions()
	assert.Equal(b.t, len(live), 1)
	return live[0]
}

func (b *bench) await(what string, match func(event.Event) bool) event.Event {
	b.t.Helper()
	e, err := b.journal.Await(b.ctx, 0, what, match)
	assert.NilError(b.t, err)
	return e
}

// end waits for a session's end and returns its closings, in order.
func (b *bench) end(s *Session) []event.Closing {
	b.t.Helper()
	select {
	case <-s.Done():
	case <-b.ctx.Done():
		b.t.Fatalf("session %s did not end", s.ID())
	}
	return b.closings(s.ID())
}

func (b *bench) closings(id event.SessionID) []event.Closing {
	var all []event.Closing
	for _, e := range b.journal.Events() {
		if e.Kind == event.SessionClosing && e.Session == id {
			all = append(all, *e.Closing)
		}
	}
	return all
}

func (b *bench) messages(id event.SessionID) []event.Message {
	var all []event.Message
	for _, e := range b.journal.Events() {
		if e.Kind == event.SessionMessage && e.Session == id {
			all = append(all, *e.Message)
		}
	}
	return all
}

// manners puts closings into words that a test can compare: "backend fatal 57P01".
func manners(all []event.Closing) []string {
	var words []string
	for _, c := range all {
		word := fmt.Sprintf("%s %s in %s", c.From, c.Manner, c.State)
		for _, more := range []string{c.SQLState, c.Cause} {
			if more != "" {
				word += " " + more
			}
		}
		words = append(words, word)
	}
	return words
}
