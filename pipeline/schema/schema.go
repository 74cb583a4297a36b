// Package schema owns the database: its migrations, its table names and the
// text of every statement that conveyor sends. It does not run statements
// (package session does) and does not decide when (package dispatch does). The
// database's own constraints are authoritative about what may be stored.
//
// Every statement begins with a comment label, so that a person, a log line or a
// proxy can tell which step of the pipeline is on the wire.
package schema

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	// tern: plain SQL migrations over pgx itself, serialised by its own advisory
	// lock, so that two deployments that start together cannot collide.
	"github.com/jackc/tern/v2/migrate"
)

// versionTable is where tern keeps the number of the last applied migration.
const versionTable = "public.conveyor_schema_version"

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate brings the database to the newest version and returns the version
// before and after. It is safe to run again and to run twice at once. tern's
// own statements carry no label.
func Migrate(ctx context.Context, conn *pgx.Conn) (from, to int32, err error) {
	migrator, err := newMigrator(ctx, conn)
	if err != nil {
		return 0, 0, err
	}
	from, err = migrator.GetCurrentVersion(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("read schema version: %w", err)
	}
	err = migrator.Migrate(ctx)
	if err != nil {
		return from, from, fmt.Errorf("apply migrations: %w", err)
	}
	return from, int32(len(migrator.Migrations)), nil
}

// Rollback takes every migration back and leaves an empty database. It exists
// for tests of the migrations themselves.
func Rollback(ctx context.Context, conn *pgx.Conn) error {
	migrator, err := newMigrator(ctx, conn)
	if err != nil {
		return err
	}
	return migrator.MigrateTo(ctx, 0)
}

func newMigrator(ctx context.Context, conn *pgx.Conn) (*migrate.Migrator, error) {
	folder, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, fmt.Errorf("open migrations: %w", err)
	}
	migrator, err := migrate.NewMigrator(ctx, conn, versionTable)
	if err != nil {
		return nil, fmt.Errorf("prepare schema version table: %w", err)
	}
	err = migrator.LoadMigrations(folder)
	if err != nil {
		return nil, fmt.Errorf("load migrations: %w", err)
	}
	return migrator, nil
}
