package pg

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"deadwire/harness/wait"
)

// template is one template of this process: being made until done is closed.
type template struct {
	name string
	done chan struct{}
	err  error // set before done is closed
}

// Template returns the name of the template for key, and builds it first if it
// does not exist. build gets the address of an empty database; its sessions are
// ended when it returns. It runs once per key, in this process and, guarded by a
// lock, among all that use the same server. The server's own mark of a template
// (pg_database.datistemplate) says that it is complete, so one whose maker was
// killed is recognised and built again. key should change with what build does.
func (d *Databases) Template(ctx context.Context, key string, build func(ctx context.Context, url string) error) (string, error) {
	d.mu.Lock()
	t, known := d.templates[key]
	if !known {
		t = &template{name: templateName(key), done: make(chan struct{})}
		d.templates[key] = t
	}
	d.mu.Unlock()
	if !known {
		t.err = d.prepare(ctx, t.name, build)
		if t.err != nil {
			d.forget(key)
		}
		close(t.done)
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		return "", fmt.Errorf("wait for template %s: %w", key, context.Cause(ctx))
	}
	if t.err != nil {
		return "", fmt.Errorf("make template %s: %w", key, t.err)
	}
	return t.name, nil
}

func templateName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf("%s%x", templatePrefix, sum[:12])
}

func (d *Databases) forget(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.templates, key)
}

// templatesUsed returns the names of the templates that are complete.
func (d *Databases) templatesUsed() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for _, t := range d.templates {
		select {
		case <-t.done:
			names = append(names, t.name)
		default:
		}
	}
	return names
}

// prepare makes sure that the template is complete and that we share its lock,
// which keeps others from dropping it.
func (d *Databases) prepare(ctx context.Context, name string, build func(context.Context, string) error) error {
	maker, err := d.claim(ctx, name)
	if err != nil || maker == 0 {
		return err
	}
	err = d.make(ctx, maker, name, build)
	lasting, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
	defer cancel()
	return errors.Join(err, d.with(lasting, func(conn *pgx.Conn) error {
		if err == nil {
			if err := lockShared(lasting, conn, name); err != nil {
				return err
			}
		}
		return unlock(lasting, conn, lockTemplate, lockKey(name))
	}))
}

// claim waits until the template is complete and we share its lock, or until we
// are the one to make it and hold the lock exclusively. It asks again and again,
// so that the session stays free for others. maker is the backend pid of the
// session with the exclusive lock; 0 when there is nothing to make.
func (d *Databases) claim(ctx context.Context, name string) (maker uint32, err error) {
	err = wait.For(ctx, "the lock of template "+name, func(ctx context.Context) wait.Answer {
		var shared, exclusive bool
		err := d.with(ctx, func(conn *pgx.Conn) (err error) {
			if shared, err = share(ctx, conn, name); err != nil || shared {
				return err
			}
			maker = conn.PgConn().PID()
			exclusive, err = tryLock(ctx, conn, lockTemplate, lockKey(name))
			return err
		})
		switch {
		case err != nil:
			return wait.Never(err)
		case shared:
			maker = 0
			return wait.Done()
		case exclusive:
			return wait.Done()
		default:
			return wait.NotYet("another process makes or drops it")
		}
	})
	return maker, err
}

// share takes the template's lock shared if the template is complete. It is
// looked at after the lock was taken, since someone may have just dropped it.
func share(ctx context.Context, conn *pgx.Conn, name string) (shared bool, err error) {
	const try = "SELECT pg_try_advisory_lock_shared($1, $2)"
	if err := conn.QueryRow(ctx, try, lockTemplate, lockKey(name)).Scan(&shared); err != nil || !shared {
		return false, err
	}
	complete, err := isComplete(ctx, conn, name)
	if err != nil || complete {
		return complete, err
	}
	return false, unlockShared(ctx, conn, name)
}

func (d *Databases) make(ctx context.Context, maker uint32, name string, build func(context.Context, string) error) error {
	var complete bool
	err := d.with(ctx, func(conn *pgx.Conn) (err error) {
		if complete, err = isComplete(ctx, conn, name); err != nil || complete {
			return err
		}
		if err := drop(ctx, conn, name); err != nil { // half-made
			return err
		}
		return create(ctx, conn, name, "template1")
	})
	if err != nil || complete {
		return err
	}
	err = build(ctx, d.server.URL(name))
	if err == nil {
		err = d.complete(ctx, maker, name)
	}
	if err != nil {
		lasting, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
		defer cancel()
		return errors.Join(err, d.with(lasting, func(conn *pgx.Conn) error { return drop(lasting, conn, name) }))
	}
	return nil
}

func isComplete(ctx context.Context, conn *pgx.Conn, name string) (complete bool, err error) {
	err = conn.QueryRow(ctx, "SELECT datistemplate FROM pg_database WHERE datname = $1", name).Scan(&complete)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return complete, err
}

var errLockLost = errors.New("the session with the template's lock was lost meanwhile")

// complete closes the template to sessions, ends those that build left, and
// marks it. Without waiting for them the next clone would have to, and
// PostgreSQL looks only every 100 ms.
func (d *Databases) complete(ctx context.Context, maker uint32, name string) error {
	err := d.with(ctx, func(conn *pgx.Conn) error {
		if conn.PgConn().PID() != maker {
			return errLockLost
		}
		_, err := conn.Exec(ctx, "ALTER DATABASE "+quote(name)+" ALLOW_CONNECTIONS false")
		return err
	})
	if err != nil {
		return err
	}
	if err := wait.For(ctx, "sessions in template "+name+" to end", d.noSessions(name)); err != nil {
		return err
	}
	return d.with(ctx, func(conn *pgx.Conn) error {
		if conn.PgConn().PID() != maker {
			return errLockLost
		}
		_, err := conn.Exec(ctx, "ALTER DATABASE "+quote(name)+" IS_TEMPLATE true")
		return err
	})
}

func (d *Databases) noSessions(name string) func(context.Context) wait.Answer {
	return func(ctx context.Context) wait.Answer {
		var left int
		err := d.with(ctx, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1", name).Scan(&left)
		})
		switch {
		case err != nil:
			return wait.Never(err)
		case left > 0:
			return wait.NotYet("%d sessions", left)
		default:
			return wait.Done()
		}
	}
}
