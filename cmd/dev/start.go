package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"deadwire/harness/pg"
	"deadwire/harness/pg/local"
	"deadwire/pipeline/schema"
)

// startRows compares the ways to a server that accepts sessions.
func startRows() []Row {
	return []Row{
		{Name: "start/initdb+pg_ctl", Unit: "ms", Prepare: prepareByHand},
		{Name: "start/cold", Unit: "ms", Limit: "<= 1.3", Prepare: func(_ context.Context, b *Bench) (Measure, error) {
			return func(ctx context.Context) (float64, error) {
				cache, err := b.tempDir("cache") // a new one per round, so that nothing is in it
				if err != nil {
					return 0, err
				}
				return b.startOnce(ctx, cache)
			}, nil
		}},
		{Name: "start/warm", Unit: "ms", Limit: "<= 0.5", Prepare: func(ctx context.Context, b *Bench) (Measure, error) {
			cache, err := b.tempDir("cache")
			if err != nil {
				return nil, err
			}
			if _, err := b.startOnce(ctx, cache); err != nil {
				return nil, err
			}
			return func(ctx context.Context) (float64, error) { return b.startOnce(ctx, cache) }, nil
		}},
	}
}

// startOnce times a start of ours, and stops the server again.
func (b *Bench) startOnce(ctx context.Context, cache string) (float64, error) {
	dir, err := b.tempDir("start")
	if err != nil {
		return 0, err
	}
	began := time.Now()
	server, err := local.New(local.Options{}).Start(ctx, pg.Config{Dir: dir, CacheDir: cache, Owner: b.lease})
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	return millis(took), server.Stop(context.WithoutCancel(ctx))
}

func prepareByHand(ctx context.Context, b *Bench) (Measure, error) {
	s, err := b.sharedServer(ctx) // only to learn where the programs are
	if err != nil {
		return nil, err
	}
	var programs [2]string
	for i, name := range []string{"initdb", "pg_ctl"} {
		if programs[i], err = beside(s, name); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) (float64, error) { return b.byHand(ctx, programs[0], programs[1]) }, nil
}

// byHand times what a person types: initdb and pg_ctl start, with the defaults
// of both but for the address, and the sync that a throw-away cluster can spare.
func (b *Bench) byHand(ctx context.Context, initdb, pgctl string) (float64, error) {
	dir, err := b.tempDir("hand")
	if err != nil {
		return 0, err
	}
	as, err := unprivileged(dir)
	if err != nil {
		return 0, err
	}
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	data := filepath.Join(dir, "data")
	options := fmt.Sprintf("-p %d -c listen_addresses=127.0.0.1 -c unix_socket_directories=%s", port, dir)
	began := time.Now()
	if err := tool(ctx, as, initdb, "-N", "-A", "trust", "-D", data); err != nil {
		return 0, err
	}
	err = tool(ctx, as, pgctl, "-w", "-D", data, "-l", filepath.Join(dir, "log"), "-o", options, "start")
	took := time.Since(began)
	stop := tool(context.WithoutCancel(ctx), as, pgctl, "-w", "-D", data, "-m", "immediate", "stop")
	return millis(took), errors.Join(err, stop)
}

func tool(ctx context.Context, as *syscall.Credential, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	// To files only: postgres inherits them from pg_ctl, and a pipe would keep
	// Wait from returning while the server runs.
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s: %w", filepath.Base(program), err)
	}
	return nil
}

// unprivileged returns the account that runs PostgreSQL, and gives it dir; nil
// when we are not root, as which PostgreSQL refuses to run.
func unprivileged(dir string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("find an account for postgres: %w", err)
	}
	uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr, os.Chown(dir, int(uid), int(gid))); err != nil {
		return nil, fmt.Errorf("give the folder to postgres: %w", err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// beside returns a program of the installation that the server runs from: what
// stands beside its own binary, or on PATH.
func beside(s *server, name string) (string, error) {
	if binary, err := os.Readlink("/proc/" + strconv.Itoa(s.PID()) + "/exe"); err == nil {
		program := filepath.Join(filepath.Dir(binary), name)
		if _, err := os.Stat(program); err == nil {
			return program, nil
		}
	}
	program, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	return program, nil
}

// cloneRows compares the ways to a fresh migrated database.
func cloneRows() []Row {
	return []Row{
		{Name: "clone/bare", Unit: "ms", Prepare: func(ctx context.Context, b *Bench) (Measure, error) {
			return b.prepareClone(ctx, func(ctx context.Context, conn *pgx.Conn, _ *pg.Databases, template string) (func(context.Context) error, error) {
				_, err := conn.Exec(ctx, `create database "deadwire_bench_bare" template "`+template+`"`)
				return func(ctx context.Context) error {
					_, err := conn.Exec(ctx, `drop database if exists "deadwire_bench_bare"`)
					return err
				}, err
			})
		}},
		{Name: "clone/deadwire", Unit: "ms", Limit: "<= 1.1", Prepare: func(ctx context.Context, b *Bench) (Measure, error) {
			return b.prepareClone(ctx, func(ctx context.Context, _ *pgx.Conn, all *pg.Databases, template string) (func(context.Context) error, error) {
				db, err := all.Clone(ctx, template)
				if err != nil {
					return nil, err
				}
				return db.Drop, nil
			})
		}},
		{Name: "clone/pgtestdb", Unit: "ms", Against: "clone/deadwire", Limit: ">= 1", Prepare: preparePgtestdb},
	}
}

// cloner makes a database and returns how to drop it.
type cloner func(ctx context.Context, conn *pgx.Conn, all *pg.Databases, template string) (func(context.Context) error, error)

// clonesPerRound makes a round long enough to be measured.
const clonesPerRound = 10

func (b *Bench) prepareClone(ctx context.Context, clone cloner) (Measure, error) {
	s, err := b.sharedServer(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, s.URL(s.Address().Database))
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	b.onStop(conn.Close)
	all := pg.NewDatabases(s)
	b.onStop(all.Close)
	template, err := all.Template(ctx, "bench", migrate)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (float64, error) {
		var took time.Duration
		for range clonesPerRound {
			began := time.Now()
			drop, err := clone(ctx, conn, all, template)
			took += time.Since(began)
			if err != nil {
				return 0, err
			}
			if err := drop(context.WithoutCancel(ctx)); err != nil {
				return 0, err
			}
		}
		return millis(took) / clonesPerRound, nil
	}, nil
}

func migrate(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	_, _, err = schema.Migrate(ctx, conn)
	return errors.Join(err, conn.Close(ctx))
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
