package witness_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"deadwire/harness/event"
	"deadwire/harness/wait"
	"deadwire/harness/witness"

	"gotest.tools/v3/assert"
)

// serverBinaries is where Debian puts the PostgreSQL that the tests use.
const serverBinaries = "/usr/lib/postgresql/15/bin"

// postgres starts a small cluster of its own and returns its address.
func postgres(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(serverBinaries); err != nil {
		t.Skip("no PostgreSQL 15 here")
	}
	as, owner := unprivileged(t)
	dir, err := os.MkdirTemp("", "witness-pg-")
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, os.RemoveAll(dir)) })
	assert.NilError(t, os.Chown(dir, owner, -1))
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(t.Context(), filepath.Join(serverBinaries, "initdb"),
		"-N", "-A", "trust", "-U", "postgres", "-D", data)
	initdb.SysProcAttr, initdb.Dir = as, dir
	out, err := initdb.CombinedOutput()
	assert.NilError(t, err, "%s", out)

	port := freePort(t)
	var log bytes.Buffer
	server := exec.Command(filepath.Join(serverBinaries, "postgres"), "-D", data, "-F",
		"-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
	server.SysProcAttr, server.Dir, server.Stdout, server.Stderr = as, dir, &log, &log
	assert.NilError(t, server.Start())
	t.Cleanup(func() {
		assert.NilError(t, server.Process.Signal(syscall.SIGQUIT))
		_ = server.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	awaitPostgres(t, address)
	return address
}

func unprivileged(t *testing.T) (*syscall.SysProcAttr, int) {
	t.Helper()
	if os.Getuid() != 0 {
		return &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}, -1
	}
	out, err := exec.CommandContext(t.Context(), "id", "-u", "postgres").Output()
	if err != nil {
		t.Skip("no user to run PostgreSQL as")
	}
	uid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	assert.NilError(t, err)
	return &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGQUIT, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)},
	}, uid
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	assert.NilError(t, err)
	defer listener.Close() //nolint:errcheck // nothing depends on it
	return listener.Addr().(*net.TCPAddr).Port
}

func awaitPostgres(t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	assert.NilError(t, wait.For(ctx, "PostgreSQL", func(ctx context.Context) wait.Answer {
		check := exec.CommandContext(ctx, filepath.Join(serverBinaries, "pg_isready"), "-h", "127.0.0.1",
			"-p", address[strings.LastIndexByte(address, ':')+1:])
		if out, err := check.CombinedOutput(); err != nil {
			return wait.NotYet("%s", bytes.TrimSpace(out))
		}
		return wait.Done()
	}))
}

// forkScript: a child closes the connection that it inherited, and then the parent asks.
const forkScript = `
import os, sys, psycopg2
c = psycopg2.connect(sys.argv[1])
child = os.fork()
if child == 0:
    c.close()
    os._exit(0)
os.waitpid(child, 0)
os.write(1, b"child %d\n" % child)
try:
    c.cursor().execute("select 1")
    os.write(1, b"survived\n")
except psycopg2.OperationalError as e:
    os.write(1, str(e).encode() + b"\n")
`

// poolScript: the workers of a pool close what they inherited, as their initialiser.
const poolScript = `
import os, sys, time, psycopg2, multiprocessing
from concurrent.futures import ProcessPoolExecutor
def work(n):
    time.sleep(0.01)
    return os.getpid()
c = psycopg2.connect(sys.argv[1])
def begin():
    c.close()
context = multiprocessing.get_context("fork")
with ProcessPoolExecutor(4, mp_context=context, initializer=begin) as pool:
    for pid in sorted(set(pool.map(work, range(16)))):
        os.write(1, b"worker %d\n" % pid)
`

// daemonScript: the program goes on as a daemon; the parent that leaves closes.
const daemonScript = `
import os, sys, psycopg2
c = psycopg2.connect(sys.argv[1])
ready, release = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    os.close(release)
    os.read(ready, 1)
    os.write(1, b"daemon %d\n" % os.getpid())
    sys.stdin.read()
    os._exit(0)
os.wait()
c.close()
`

func TestDriversThatHangUpAreNamed(t *testing.T) {
	t.Parallel()
	address := postgres(t)
	for _, certainty := range []string{witness.Exact, witness.Holders} {
		t.Run(certainty, func(t *testing.T) {
			s := newServer(t, witness.Options{Disabled: certainty == witness.Holders}, address)
			i := s.start(t, "/usr/bin/python3", []string{"-c", forkScript, s.dsn()})
			s.finish(t, i)
			assert.Equal(t, s.opened(1).Opener, i.PID())
			assert.Equal(t, i.Tail()[1].Text, "server closed the connection unexpectedly")
			if certainty == witness.Exact {
				s.checkTerminate(t, i.PID(), s.printedPIDs(t, "child"))
			}
		})
	}
	t.Run("pool", func(t *testing.T) {
		s := newServer(t, witness.Options{}, address)
		i := s.start(t, "/usr/bin/python3", []string{"-c", poolScript, s.dsn()})
		s.finish(t, i)
		s.checkTerminate(t, i.PID(), s.printedPIDs(t, "worker"))
	})
	t.Run("daemon", func(t *testing.T) {
		s := newServer(t, witness.Options{}, address)
		i := s.start(t, "/usr/bin/python3", []string{"-c", daemonScript, s.dsn()})
		s.finish(t, i)
		terminates := s.calls(event.CallSend, "Terminate")
		assert.Equal(t, len(terminates), 1)
		assert.Equal(t, terminates[0].PID, i.PID())
		assert.Equal(t, len(terminates[0].Call.Holders), 2, "the daemon still held it")
	})
}

func (s *server) dsn() string {
	return fmt.Sprintf("host=127.0.0.1 port=%s user=postgres dbname=postgres sslmode=disable gssencmode=disable",
		s.address()[strings.LastIndexByte(s.address(), ':')+1:])
}

// checkTerminate: the first to say Terminate was one of senders, the opener
// still held the session, and was not the one who said it.
func (s *server) checkTerminate(t *testing.T, opener int, senders []int) {
	t.Helper()
	terminates := s.calls(event.CallSend, "Terminate")
	assert.Assert(t, len(terminates) > 0)
	first := terminates[0]
	assert.Assert(t, slices.Contains(senders, first.PID), "%d not in %v", first.PID, senders)
	assert.Assert(t, first.PID != opener)
	assert.Assert(t, slices.Contains(first.Call.Holders, opener))
	assert.Assert(t, slices.Contains(first.Call.Holders, first.PID))
	assert.Equal(t, s.opened(first.Session.N).Opener, opener)
}

func (s *server) printedPIDs(t *testing.T, word string) []int {
	t.Helper()
	var pids []int
	for _, e := range s.journal.Events() {
		if e.Kind != event.SubjectOutput || !strings.HasPrefix(e.Output.Text, word+" ") {
			continue
		}
		pid, err := strconv.Atoi(strings.Fields(e.Output.Text)[1])
		assert.NilError(t, err)
		pids = append(pids, pid)
	}
	return pids
}
