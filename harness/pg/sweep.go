package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// sweep drops what runs left that are no more: clones whose run's lock is free,
// and templates that nobody uses.
func sweep(ctx context.Context, conn *pgx.Conn) error {
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
