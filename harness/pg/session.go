package pg

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5"
)

// Advisory locks, two-key form, in the maintenance database. A template's lock
// is held shared by all who use it and exclusively while it is made or dropped;
// a run's lock is held as long as its process lives.
const (
	lockTemplate = 0x64770001
	lockRun      = 0x64770002
)

var errClosed = errors.New("databases are closed")

// with calls do with the session, one caller at a time.
func (d *Databases) with(ctx context.Context, do func(*pgx.Conn) error) error {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if d.closed {
		return errClosed
	}
	if err := d.connect(ctx); err != nil {
		return err
	}
	return do(d.conn)
}

// connect makes sure that the session is alive. Asking first costs a round trip,
// but a CREATE DATABASE whose answer was lost could not simply be sent again.
func (d *Databases) connect(ctx context.Context) error {
	if d.conn != nil {
		if d.conn.Ping(ctx) == nil {
			return nil
		}
		_ = d.conn.Close(ctx) // it is dead: the server was restarted, or ctx ended
		d.conn = nil
	}
	conn, err := Admin(ctx, d.server)
	if err != nil {
		return err
	}
	if err := d.settle(ctx, conn); err != nil {
		return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	d.conn = conn
	return nil
}

// settle takes the locks that the session holds for its whole life, and the
// first time removes what killed runs left on a server that outlived them.
func (d *Databases) settle(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock_shared($1, $2)", lockRun, lockKey(d.token)); err != nil {
		return fmt.Errorf("lock run: %w", err)
	}
	for _, name := range d.templatesUsed() {
		if err := lockShared(ctx, conn, name); err != nil {
			return err
		}
	}
	if d.swept || d.server.PID() != 0 {
		return nil
	}
	d.swept = true
	return sweep(ctx, conn)
}

func (d *Databases) hangUp(ctx context.Context) error {
	// Released whatever became of the caller, but not without limit.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
	defer cancel()
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return fmt.Errorf("close admin session: %w", context.Cause(ctx))
	}
	d.closed = true
	if d.conn == nil {
		return nil
	}
	_ = d.conn.Close(ctx) // a session that the server has cut cannot be closed properly, and need not be
	d.conn = nil
	return nil
}

func lockKey(name string) int32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return int32(h.Sum32())
}

func lockShared(ctx context.Context, conn *pgx.Conn, template string) error {
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock_shared($1, $2)", lockTemplate, lockKey(template)); err != nil {
		return fmt.Errorf("lock template %s: %w", template, err)
	}
	return nil
}

func unlockShared(ctx context.Context, conn *pgx.Conn, template string) error {
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_unlock_shared($1, $2)", lockTemplate, lockKey(template)); err != nil {
		return fmt.Errorf("unlock template %s: %w", template, err)
	}
	return nil
}

// tryLock takes a lock exclusively, if nobody else holds it in any way.
func tryLock(ctx context.Context, conn *pgx.Conn, kind, key int32) (got bool, err error) {
	err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, $2)", kind, key).Scan(&got)
	return got, err
}

func unlock(ctx context.Context, conn *pgx.Conn, kind, key int32) error {
	_, err := conn.Exec(ctx, "SELECT pg_advisory_unlock($1, $2)", kind, key)
	return err
}
