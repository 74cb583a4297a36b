// Package session owns one PostgreSQL session and what is known about its life:
// open, closed by its owner, or lost. It does not pool, share or reopen sessions,
// and it knows no table. The owner's Close is authoritative: after it, every use is
// refused and nothing brings the session back.
package session

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	// pgx: the PostgreSQL driver that shows its connection: backend pid, parameter
	// status, batches, and errors that tell a dead connection from a refused query.
	"github.com/jackc/pgx/v5"

	"deadwire/pipeline/schema"
)

// ErrClosed is the answer to every use after the owner's Close.
var ErrClosed = errors.New("session was closed by its owner")

// TimeoutDefault bounds a connect and a statement when the caller names no bound.
const TimeoutDefault = 5 * time.Second

const (
	// prefix begins every application_name, so that pg_stat_activity can be asked
	// for the pipeline's sessions.
	prefix = "conveyor/"
	// grace is how long a running statement may go on once its caller was
	// cancelled. Cancelling a pgx call closes the connection, and with it the chance
	// to write the truth into the ledger, so the statement gets a moment to end.
	grace = 2 * time.Second
	// execModeParam in a URL overrides how statements are sent. The default here
	// uses unnamed statements: the text, and so its label, is on the wire each time,
	// and nothing is left in the session that a pooler could lose.
	execModeParam = "default_query_exec_mode"
	// checkIntervalSince is the first major version with client_connection_check_interval.
	checkIntervalSince = 14
)

// Config says how sessions are opened.
type Config struct {
	// URL is a connection string as pgx reads it; empty means the PG* environment.
	// A connect_timeout in either bounds the connect in place of Timeout.
	URL string
	// Timeout bounds the connect and each statement; zero means 5 s.
	Timeout time.Duration
}

// Session is one PostgreSQL session. It is for one goroutine at a time.
type Session struct {
	conn    *pgx.Conn
	name    string
	timeout time.Duration
	closed  bool
}

// Open connects as application "conveyor/NAME". The error of pgx is kept in the
// chain; it contains no password.
func Open(ctx context.Context, cfg Config, name string) (*Session, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = TimeoutDefault
	}
	settings, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("parse database url: %w", err)
	}
	settings.RuntimeParams["application_name"] = prefix + name
	if !strings.Contains(cfg.URL, execModeParam) {
		settings.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	connect := cmp.Or(settings.ConnectTimeout, cfg.Timeout)
	ctx, cancel := context.WithTimeout(ctx, connect)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("open session %s%s: %w", prefix, name, err)
	}
	s := &Session{conn: conn, name: name, timeout: connect}
	err = s.setup(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up session %s%s: %w", prefix, name, err), s.Close(ctx))
	}
	s.timeout = cfg.Timeout
	return s, nil
}

// setup asks the server to notice our death and to plan plainly. A server that refuses
// the settings (an operating system without the means, a pooler) still serves.
func (s *Session) setup(ctx context.Context) error {
	if major(s.conn.PgConn().ParameterStatus("server_version")) >= checkIntervalSince {
		refused, err := s.asked(ctx, schema.SessionSetup)
		if !refused {
			return err
		}
	}
	_, err := s.asked(ctx, schema.SessionPlain)
	return err
}

// asked tells a server that says no from a session that broke.
func (s *Session) asked(ctx context.Context, setting string) (refused bool, err error) {
	_, err = s.Exec(ctx, setting)
	if IsServerError(err) && !s.Lost() {
		return true, nil
	}
	return false, err
}

// major reads the first number of a version such as "15.18 (Debian)" or "19beta1".
func major(version string) int {
	end := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(version)
	}
	number, err := strconv.Atoi(version[:end])
	if err != nil {
		return 0
	}
	return number
}

// Name is the part of application_name after "conveyor/".
func (s *Session) Name() string { return s.name }

// BackendPID is the process id of the session's server process, as BackendKeyData
// gave it. It stays readable after the session ended.
func (s *Session) BackendPID() uint32 { return s.conn.PgConn().PID() }

// Closed says whether the owner closed the session.
func (s *Session) Closed() bool { return s.closed }

// Lost says whether the session broke without its owner's doing: by the network,
// the server, another process, or a statement that overran its bound.
func (s *Session) Lost() bool { return !s.closed && s.conn.IsClosed() }

// Close ends the session for good: Terminate, then the end of what we send, then
// the server's own end, so that whoever comes next finds no lock of ours. Closing
// again does nothing; closing a lost session waits for what pgx still does to end
// it. All is bounded, even when the context is not.
func (s *Session) Close(ctx context.Context) error {
	if s.closed {
		return nil
	}
	lost := s.Lost()
	s.closed = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	if lost {
		s.awaitCleanup(ctx)
		return nil
	}
	err := s.goodbye(ctx)
	if err != nil {
		return fmt.Errorf("close session %s%s: %w", prefix, s.name, err)
	}
	return nil
}

// awaitCleanup lets pgx finish its cancel request, so that a statement that
// overran its bound does not go on in the server for want of it.
func (s *Session) awaitCleanup(ctx context.Context) {
	select {
	case <-s.conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}

// SyscallConn gives raw access to the session's socket, below TLS, without
// changing its mode: the descriptor stays non-blocking and close-on-exec.
func (s *Session) SyscallConn() (syscall.RawConn, error) {
	if s.closed {
		return nil, ErrClosed
	}
	conn := s.conn.PgConn().Conn()
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	raw, ok := conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("reach socket of session %s%s: %T has no descriptor", prefix, s.name, conn)
	}
	return raw.SyscallConn()
}

// Raw lends the pgx connection to a caller that needs the whole of it, such as
// the migrations; the session stays its owner.
func (s *Session) Raw() *pgx.Conn { return s.conn }
