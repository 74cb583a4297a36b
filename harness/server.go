package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/jackc/pgx/v5"

	"deadwire/harness/event"
	"deadwire/harness/pg"
)

// server is a PostgreSQL with its databases, whose log goes to the lanes on it.
type server struct {
	pg.Server
	databases *pg.Databases
	dir       string

	mu    sync.Mutex
	lanes map[*Lane]struct{}
}

// startServer starts one more server in a private folder. The folder's name is
// short, since a Unix socket's path has room for 107 bytes.
func (r *Rig) startServer(ctx context.Context) (*server, error) {
	dir, err := os.MkdirTemp(pg.TempDirs()[0], "dw-")
	if err != nil {
		return nil, fmt.Errorf("make server folder: %w", err)
	}
	s := &server{dir: dir, lanes: map[*Lane]struct{}{}}
	r.onClose(func(context.Context) error { return os.RemoveAll(dir) })
	if r.cfg.Owner != nil {
		if err := r.cfg.Owner.OwnDir(dir); err != nil {
			return nil, err
		}
	}
	s.Server, err = r.cfg.Provider.Start(ctx, pg.Config{
		Dir: dir, Settings: r.cfg.Settings, Owner: r.cfg.Owner,
		OnLog: func(e pg.LogEntry) { r.logged(s, e) },
	})
	if err != nil {
		return nil, err
	}
	r.onClose(s.Stop)
	s.databases = pg.NewDatabases(s.Server)
	return s, nil
}

// logged writes an entry to the run's log file and to the lanes it concerns: the
// one of its database, or all when it has none, as the postmaster's have.
func (r *Rig) logged(s *server, e pg.LogEntry) {
	if r.log != nil {
		r.logMu.Lock()
		_, _ = fmt.Fprintf(r.log, "%s [%d] %s %s %s: %s\n", e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), e.BackendPID, e.Database, e.SQLState, e.Severity, e.Text)
		r.logMu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for lane := range s.lanes {
		if e.Database != "" && e.Database != lane.Database.Name() {
			continue
		}
		lane.Journal.Record(event.Event{Kind: event.ServerLogged, PID: e.BackendPID, Log: &event.Log{
			Severity: e.Severity, SQLState: e.SQLState, Text: e.Text, Database: e.Database, ApplicationName: e.ApplicationName,
		}})
	}
}

// Database is a case's own database, or one that was there before.
type Database struct {
	*pg.Database
	server   *server
	own      bool
	borrowed bool
}

// DatabaseConfig says how a case's database is made.
type DatabaseConfig struct {
	// Key names the template; it changes with what Build does.
	Key string
	// Build fills an empty database at a URL. It runs once for each key and server.
	Build func(ctx context.Context, url string) error
	// OwnServer gives the case a server to itself, which faults may stop or crash.
	OwnServer bool
}

// NewDatabase makes a database of a case's own, a clone of the template.
func (r *Rig) NewDatabase(ctx context.Context, cfg DatabaseConfig) (*Database, error) {
	on := r.shared
	if cfg.OwnServer {
		var err error
		if on, err = r.startServer(ctx); err != nil {
			return nil, err
		}
	}
	template, err := on.databases.Template(ctx, cfg.Key, cfg.Build)
	if err != nil {
		return nil, err
	}
	db, err := on.databases.Clone(ctx, template)
	if err != nil {
		return nil, err
	}
	return &Database{Database: db, server: on, own: cfg.OwnServer}, nil
}

// BorrowDatabase returns a database of the shared server that somebody else made.
// It is never changed or dropped by the harness.
func (r *Rig) BorrowDatabase(name string) *Database {
	return &Database{Database: r.shared.databases.Existing(name), server: r.shared, borrowed: true}
}

// Server returns the server that the database is on.
func (d *Database) Server() pg.Server { return d.server.Server }

// OwnServer reports whether the case has that server to itself.
func (d *Database) OwnServer() bool { return d.own }

// Admin opens a session to the database that bypasses the taps. The caller
// closes it.
func (d *Database) Admin(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pg.Connect(ctx, d.URL())
	if err != nil {
		return nil, fmt.Errorf("open admin session: %w", err)
	}
	return conn, nil
}

// Close drops the database, unless it was borrowed, and stops its server if that
// was its own.
func (d *Database) Close(ctx context.Context) error {
	switch {
	case d.borrowed:
		return nil
	case !d.own:
		return d.Drop(ctx)
	}
	return errors.Join(d.server.Stop(ctx), os.RemoveAll(d.server.dir))
}
