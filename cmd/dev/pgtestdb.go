package main

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver that pgtestdb is told to use
	// The best known library for a fresh migrated database per test: what our own
	// way is measured against. Nothing but the benchmark uses it.
	"github.com/peterldowns/pgtestdb"
)

// preparePgtestdb sets up the row in which pgtestdb makes the same database.
func preparePgtestdb(ctx context.Context, b *Bench) (Measure, error) {
	s, err := b.sharedServer(ctx)
	if err != nil {
		return nil, err
	}
	a := s.Address()
	cfg := pgtestdb.Config{
		DriverName: "pgx", Host: a.Host, Port: strconv.Itoa(a.Port), User: a.User, Password: a.Password.Reveal(),
		Database: a.Database, Options: "sslmode=disable", ForceTerminateConnections: true,
	}
	clone := func() (time.Duration, error) {
		var t trial
		defer t.clean()
		return t.measure(func() { pgtestdb.Custom(&t, cfg, migrator{}) })
	}
	if _, err := clone(); err != nil { // its template
		return nil, err
	}
	return func(context.Context) (float64, error) {
		var took time.Duration
		for range clonesPerRound {
			one, err := clone()
			if err != nil {
				return 0, err
			}
			took += one
		}
		return millis(took) / clonesPerRound, nil
	}, nil
}

// migrator gives pgtestdb's template the schema that ours has.
type migrator struct{}

// Hash implements pgtestdb.Migrator.
func (migrator) Hash() (string, error) { return "deadwire-bench", nil }

// Migrate implements pgtestdb.Migrator.
func (migrator) Migrate(ctx context.Context, _ *sql.DB, cfg pgtestdb.Config) error {
	return migrate(ctx, cfg.URL())
}

// trial is what pgtestdb takes for a test. A failure is a panic, since it relies
// on not being returned to.
type trial struct {
	cleanups []func()
	failed   bool
}

type trialFailed string

func (t *trial) measure(do func()) (took time.Duration, err error) {
	defer func() {
		cause := recover()
		if text, failed := cause.(trialFailed); failed {
			err = fmt.Errorf("pgtestdb: %s", string(text))
		} else if cause != nil {
			panic(cause)
		}
	}()
	began := time.Now()
	do()
	return time.Since(began), nil
}

func (t *trial) clean() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}

func (t *trial) Cleanup(do func())   { t.cleanups = append(t.cleanups, do) }
func (t *trial) Failed() bool        { return t.failed }
func (t *trial) Helper()             {}
func (t *trial) Logf(string, ...any) {}

func (t *trial) Fatalf(format string, args ...any) {
	t.failed = true
	panic(trialFailed(fmt.Sprintf(format, args...)))
}
