package pg

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// Prefix is what the name of every database that we make begins with. No
	// other database is ever dropped.
	Prefix         = "deadwire_"
	templatePrefix = Prefix + "tpl_"
	runPrefix      = Prefix + "run_"

	tokenBytes = 6
	// dropTimeout bounds cleaning up after a caller whose context has ended.
	dropTimeout = 30 * time.Second
)

// Databases makes databases on one server: templates, built once, and clones of
// them. It keeps one session, which it opens on first use and again after the
// server has been restarted. It is safe for concurrent use.
type Databases struct {
	server Server
	token  string // names our clones, and the lock that says that we are alive

	turn   chan struct{} // holds one token while the session is in use
	conn   *pgx.Conn     // guarded by turn
	swept  bool          // guarded by turn
	closed bool          // guarded by turn

	mu        sync.Mutex // guards what follows
	templates map[string]*template
	clones    map[string]struct{} // names of those not dropped yet
	serial    int
}

// NewDatabases returns Databases for a server. They are closed when the server
// is stopped, if not before.
func NewDatabases(server Server) *Databases {
	random := make([]byte, tokenBytes)
	_, _ = rand.Read(random) // never fails, see crypto/rand
	d := &Databases{
		server: server, token: hex.EncodeToString(random), turn: make(chan struct{}, 1),
		templates: map[string]*template{}, clones: map[string]struct{}{},
	}
	server.OnStop(d.release)
	return d
}

// Database is a database that we made.
type Database struct {
	name string
	in   *Databases
}

// Name returns the database's name.
func (db *Database) Name() string { return db.name }

// URL returns the database's address, with the password in it.
func (db *Database) URL() string { return db.in.server.URL(db.name) }

// Existing returns a database that somebody else made. It can be used like one
// of ours, except that Drop refuses it.
func (d *Databases) Existing(name string) *Database { return &Database{name: name, in: d} }

// Drop ends the sessions in the database and removes it. It is repeatable.
func (db *Database) Drop(ctx context.Context) error { return db.in.Drop(ctx, db.name) }

// Clone makes a new database that equals the template. It costs one CREATE
// DATABASE and one round trip.
func (d *Databases) Clone(ctx context.Context, template string) (*Database, error) {
	db := &Database{in: d}
	err := d.with(ctx, func(conn *pgx.Conn) error {
		db.name = d.reserve()
		return create(ctx, conn, db.name, template)
	})
	if err == nil {
		return db, nil
	}
	if db.name != "" { // it may exist all the same: the answer can have been lost
		lasting, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
		defer cancel()
		err = errors.Join(err, db.Drop(lasting))
	}
	return nil, fmt.Errorf("clone database %s: %w", template, err)
}

func (d *Databases) reserve() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.serial++
	name := fmt.Sprintf("%s%s_%d", runPrefix, d.token, d.serial)
	d.clones[name] = struct{}{}
	return name
}

// create leaves the strategy to the server: measured on version 15 with a small
// schema, the default (WAL_LOG) and FILE_COPY took the same time.
func create(ctx context.Context, conn *pgx.Conn, name, template string) error {
	_, err := conn.Exec(ctx, "CREATE DATABASE "+quote(name)+" TEMPLATE "+quote(template))
	return err
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// Drop ends the sessions in a database that we made and removes it, if it is
// still there. The error of a foreign name is a *NotDatabaseError.
func (d *Databases) Drop(ctx context.Context, name string) error {
	if !strings.HasPrefix(name, Prefix) {
		return fmt.Errorf("drop database: %w", &NotDatabaseError{Name: name})
	}
	if err := d.with(ctx, func(conn *pgx.Conn) error { return drop(ctx, conn, name) }); err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.clones, name)
	return nil
}

func drop(ctx context.Context, conn *pgx.Conn, name string) error {
	_, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)")
	return err
}

// Close drops the clones that are left, and the templates that no other process
// uses, and ends the session. It is repeatable; afterwards nothing can be made.
func (d *Databases) Close(ctx context.Context) error {
	var errs []error
	for _, name := range d.left() {
		errs = append(errs, d.Drop(ctx, name))
	}
	errs = append(errs, d.dropTemplates(ctx), d.hangUp(ctx))
	if err := errors.Join(errs...); err != nil && !errors.Is(err, errClosed) {
		return fmt.Errorf("close databases: %w", err)
	}
	return nil
}

func (d *Databases) left() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for name := range d.clones {
		names = append(names, name)
	}
	return names
}

// release is what happens when the server stops: a server of ours takes its
// databases along, so there is no need to drop them one by one.
func (d *Databases) release(ctx context.Context) error {
	if d.server.PID() != 0 {
		return d.hangUp(ctx)
	}
	lasting, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
	defer cancel()
	return d.Close(lasting)
}
