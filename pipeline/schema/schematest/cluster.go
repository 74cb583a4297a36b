// Package schematest owns a throwaway PostgreSQL for the tests of one package:
// started in TestMain, one fresh migrated database per test, gone afterwards. It is
// no rig: it injects nothing and knows nothing of the harness. The server that it
// starts is authoritative; nothing is simulated.
package schematest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"gotest.tools/v3/poll"

	"deadwire/pipeline/schema"
)

const (
	// readyMax bounds the start of the server and each wait for it.
	readyMax = 2 * time.Minute
	template = "conveyor_template"
	// portEnv tells the package's tests where TestMain's cluster listens.
	portEnv = "CONVEYOR_TEST_PGPORT"
	// socketEnv names the folder of its socket file, if it has one; socketMax is the
	// longest name that leaves room for the file's in a socket address.
	socketEnv = "CONVEYOR_TEST_PGSOCKET"
	socketMax = 80
)

// Main starts a cluster, runs the package's tests and stops it again. It returns
// the exit code for TestMain.
func Main(m *testing.M) int {
	stop, err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "schematest:", err)
		return 1
	}
	defer stop()
	return m.Run()
}

// Database creates a migrated database for one test and returns its URL. It is
// dropped with the cluster.
func Database(tb testing.TB) string {
	tb.Helper()
	name := "t" + strconv.FormatInt(time.Now().UnixNano(), 36)
	err := execute(url("postgres"), "create database "+name+" template "+template)
	if err != nil {
		tb.Fatal(err)
	}
	return url(name)
}

// Empty creates a database without any table and returns its URL.
func Empty(tb testing.TB) string {
	tb.Helper()
	name := "e" + strconv.FormatInt(time.Now().UnixNano(), 36)
	err := execute(url("postgres"), "create database "+name)
	if err != nil {
		tb.Fatal(err)
	}
	return url(name)
}

// Socket is the connection string of a database, given by its URL, over the server's
// socket file, which also reaches it from another network namespace; "" when the
// folder's name is too long for one.
func Socket(at string) string {
	folder := os.Getenv(socketEnv)
	if folder == "" {
		return ""
	}
	name := at[strings.LastIndexByte(at, '/')+1:]
	name, _, _ = strings.Cut(name, "?")
	return "host=" + folder + " port=" + os.Getenv(portEnv) + " user=postgres sslmode=disable dbname=" + name
}

func url(database string) string {
	return "postgres://postgres@127.0.0.1:" + os.Getenv(portEnv) + "/" + database + "?sslmode=disable"
}

func start() (stop func(), err error) {
	folder, err := os.MkdirTemp("", "conveyor-pg-")
	if err != nil {
		return nil, err
	}
	remove := func() { _ = os.RemoveAll(folder) } // a temp folder that resists only costs disk
	server, err := startServer(folder)
	if err != nil {
		remove()
		return nil, err
	}
	stop = func() {
		_ = server.Process.Signal(syscall.SIGQUIT)
		_ = server.Wait() // an immediate shutdown exits non-zero by design
		remove()
	}
	err = makeTemplate()
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

func startServer(folder string) (*exec.Cmd, error) {
	credential, err := unprivileged(folder)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "data")
	initdb := command(credential, "initdb", "-N", "-A", "trust", "-U", "postgres", "-D", data)
	output, err := initdb.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, output)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	sockets := folder
	if len(folder) > socketMax {
		sockets = ""
	}
	server := command(credential, "postgres", "-D", data, "-p", port, "-k", sockets, "-h", "127.0.0.1", "-F",
		"-c", "max_connections=200", "-c", "shared_buffers=32MB")
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	server.Stdout, server.Stderr = log, log
	return server, errors.Join(server.Start(), os.Setenv(portEnv, port), os.Setenv(socketEnv, sockets))
}

// command runs a server program as the given user, and ends it when we die.
func command(credential *syscall.Credential, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(program(name), args...)
	cmd.Dir = os.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential, Pdeathsig: syscall.SIGQUIT}
	return cmd
}

// program finds a server program on PATH or in Debian's folders, newest last.
func program(name string) string {
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // the pattern is constant and well-formed
	if len(found) == 0 {
		return name
	}
	return found[len(found)-1]
}

// unprivileged is the user postgres when we are root, which the server refuses.
func unprivileged(folder string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
	err = errors.Join(uidErr, gidErr, os.Chown(folder, int(uid), int(gid)))
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, errors.Join(err, listener.Close())
}

func makeTemplate() error {
	err := untilReady()
	if err != nil {
		return err
	}
	err = execute(url("postgres"), "create database "+template)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyMax)
	defer cancel()
	conn, err := pgx.Connect(ctx, url(template))
	if err != nil {
		return err
	}
	_, _, err = schema.Migrate(ctx, conn)
	return errors.Join(err, conn.Close(ctx))
}

// untilReady connects again and again until the server lets us in.
func untilReady() error {
	deadline := time.Now().Add(readyMax)
	for {
		err := execute(url("postgres"), "select 1")
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-time.After(20 * time.Millisecond)
	}
}

func execute(at, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyMax)
	defer cancel()
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// Eventually waits until a condition on the database holds: a query whose single
// boolean becomes true.
func Eventually(tb testing.TB, at, query string, args ...any) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), at)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(context.Background())
	poll.WaitOn(tb, func(poll.LogT) poll.Result {
		var holds bool
		err := conn.QueryRow(tb.Context(), query, args...).Scan(&holds)
		if err != nil {
			return poll.Error(err)
		}
		if !holds {
			return poll.Continue("not yet: %s", query)
		}
		return poll.Success()
	}, poll.WithTimeout(readyMax), poll.WithDelay(10*time.Millisecond))
}
