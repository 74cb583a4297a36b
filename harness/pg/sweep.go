package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"deadwire/harness/wait"
)

const (
	// makersMax bounds the wait for databases that were being made when a sweep
	// began: what takes longer than that is left to the next one.
	makersMax = 20 * time.Second
	// lastLook is how long a backend may take, after its statement, to see that
	// its client is gone. Until then it holds the lock of the client's run.
	lastLook = "300 ms"
)

// sweep drops what runs left that are no more: clones whose run's lock is free,
// and templates that nobody uses.
func sweep(ctx context.Context, conn *pgx.Conn) error {
	if err := awaitMakers(ctx, conn); err != nil {
		return fmt.Errorf("sweep databases: %w", err)
	}
	rows, err := conn.Query(ctx, "SELECT datname FROM pg_database WHERE starts_with(datname, $1) ORDER BY 1", Prefix)
	if err != nil {
		return fmt.Errorf("sweep databases: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("sweep databases: %w", err)
	}
	var errs []error
	for _, name := range names {
		kind, key, ours := lockOf(name)
		if ours {
			_, err := dropUnused(ctx, conn, name, kind, key)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// awaitMakers waits until every database that is being made now is there, or not.
// The server finishes the CREATE DATABASE of a client that was killed in the middle
// of it; before that nobody sees the new database, and the client's run still
// holds its lock. Databases whose making begins later are not waited for.
func awaitMakers(ctx context.Context, conn *pgx.Conn) error {
	var now time.Time
	if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, makersMax)
	defer cancel()
	err := wait.For(bounded, "databases that are being made", func(context.Context) wait.Answer {
		var makers int
		// The bound is the wait's own: a statement that it cancelled would end our session.
		err := conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE application_name = $1 AND pid <> pg_backend_pid() AND query_start < $2
			AND query LIKE 'CREATE DATABASE %' AND (state = 'active' OR state_change > clock_timestamp() - $3::interval)`,
			AdminName, now, lastLook).Scan(&makers)
		switch {
		case err != nil:
			return wait.Never(err)
		case makers > 0:
			return wait.NotYet("%d sessions make one", makers)
		}
		return wait.Done()
	})
	if ctx.Err() == nil && bounded.Err() != nil {
		return nil
	}
	return err
}

// lockOf returns the lock that those who use a database of ours hold.
func lockOf(name string) (kind, key int32, ours bool) {
	if strings.HasPrefix(name, templatePrefix) {
		return lockTemplate, lockKey(name), true
	}
	rest, isClone := strings.CutPrefix(name, runPrefix)
	token, _, _ := strings.Cut(rest, "_")
	return lockRun, lockKey(token), isClone
}

// dropUnused drops a database if nobody holds its lock.
func dropUnused(ctx context.Context, conn *pgx.Conn, name string, kind, key int32) (dropped bool, err error) {
	got, err := tryLock(ctx, conn, kind, key)
	if err != nil || !got {
		return false, err
	}
	complete, err := isComplete(ctx, conn, name)
	if err == nil && complete { // PostgreSQL refuses to drop a template as such
		_, err = conn.Exec(ctx, "ALTER DATABASE "+quote(name)+" IS_TEMPLATE false")
	}
	if err == nil {
		err = drop(ctx, conn, name)
	}
	if err := errors.Join(err, unlock(context.WithoutCancel(ctx), conn, kind, key)); err != nil {
		return false, fmt.Errorf("drop database %s: %w", name, err)
	}
	return true, nil
}

// dropTemplates drops the templates that we used unless another process still
// does: the last one out drops them.
func (d *Databases) dropTemplates(ctx context.Context) error {
	names := d.templatesUsed()
	if len(names) == 0 {
		return nil
	}
	return d.with(ctx, func(conn *pgx.Conn) error {
		var errs []error
		for _, name := range names {
			errs = append(errs, letGo(ctx, conn, name))
		}
		return errors.Join(errs...)
	})
}

func letGo(ctx context.Context, conn *pgx.Conn, name string) error {
	if err := unlockShared(ctx, conn, name); err != nil {
		return err
	}
	_, err := dropUnused(ctx, conn, name, lockTemplate, lockKey(name))
	return err
}
