package worker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"deadwire/pipeline/worker"
)

func TestStderrIsPassedOnLineByLine(t *testing.T) {
	t.Parallel()
	var log safeBuffer
	pool := start(t, worker.Config{Workers: 3, Stderr: &log})
	assert.Equal(t, exitOf(t, one(t, pool, "exit").Err).Stderr[1], "last words")
	assert.NilError(t, pool.Close(t.Context()))
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	assert.Equal(t, len(lines), 6, "three are ready, one has last words, two leave: %q", lines)
}

func TestKilledCoordinatorEndsItsWorkersAfterTheJobInHand(t *testing.T) {
	t.Parallel()
	release := filepath.Join(t.TempDir(), "release")
	self, err := os.Executable()
	assert.NilError(t, err)
	coordinator := exec.Command(self, "coordinator-mode", release)
	var log safeBuffer
	coordinator.Stderr = &log
	stdin, err := coordinator.StdinPipe()
	assert.NilError(t, err)
	defer stdin.Close()
	stdout, err := coordinator.StdoutPipe()
	assert.NilError(t, err)
	assert.NilError(t, coordinator.Start())
	var pids []int
	assert.NilError(t, json.NewDecoder(bufio.NewReader(stdout)).Decode(&pids))
	assert.NilError(t, waitForFile(release+".started"))
	assert.NilError(t, coordinator.Process.Kill())
	assert.ErrorContains(t, coordinator.Wait(), "killed")

	poll.WaitOn(t, func(poll.LogT) poll.Result { return check(running(pids), 1) })
	assert.NilError(t, os.WriteFile(release, nil, 0o600))
	poll.WaitOn(t, func(poll.LogT) poll.Result { return check(running(pids), 0) })
}

// running counts the processes that live; a zombie waits for whoever adopted it and no longer does
func running(pids []int) (n int) {
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		if _, rest, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(rest, "Z") {
			n++
		}
	}
	return n
}

// session is a loopback connection in the place of the coordinator's database session.
type session struct {
	*net.TCPConn
}

func (s session) Close(context.Context) error { return s.TCPConn.Close() }

// dial returns the coordinator's end and a reader of the server's end
func dial(t *testing.T) (session, *bufio.Scanner) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	assert.NilError(t, err)
	server, err := listener.Accept()
	assert.NilError(t, err)
	assert.NilError(t, server.SetReadDeadline(time.Now().Add(10*time.Second)))
	t.Cleanup(func() { client.Close(); server.Close() })
	return session{client.(*net.TCPConn)}, bufio.NewScanner(server)
}

func nonblocking(t *testing.T, s session) bool {
	t.Helper()
	raw, err := s.SyscallConn()
	assert.NilError(t, err)
	var flags int
	assert.NilError(t, raw.Control(func(fd uintptr) { flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0) }))
	assert.NilError(t, err)
	return flags&unix.O_NONBLOCK != 0
}

// withSeam fills the coordinator's side; what the worker does is chosen by its own option
func withSeam(s worker.Inheritable) worker.Config {
	return worker.Config{
		Workers: 1, Session: s,
		Seam: worker.Seam{Inherited: func(int, *os.File) (func(), error) { return nil, nil }},
	}
}

func TestInheritedSocketIsTheCoordinatorsOwn(t *testing.T) {
	t.Parallel()
	conn, server := dial(t)
	cfg := withSeam(conn)
	cfg.RecycleAfter = 2
	pool := start(t, cfg, "inherit")
	heard := func(want string) {
		t.Helper()
		assert.Assert(t, server.Scan(), "%v", server.Err())
		assert.Equal(t, server.Text(), want)
	}
	heard("hello from 1")
	assert.Assert(t, nonblocking(t, conn), "O_NONBLOCK must stay set on the shared description")
	assertDeadlineWorks(t, conn)

	assert.NilError(t, one(t, pool, "echo:1").Err)
	assert.NilError(t, one(t, pool, "echo:2").Err)
	heard("bye from 1") // the recycled one
	heard("hello from 1")
	fmt.Fprintln(conn, "coordinator")
	heard("coordinator")
	assert.NilError(t, pool.Close(t.Context()))
	heard("bye from 1")
	assert.Assert(t, nonblocking(t, conn))
	fmt.Fprintln(conn, "coordinator again") // no worker's exit ended the session
	heard("coordinator again")
}

func assertDeadlineWorks(t *testing.T, conn session) {
	t.Helper()
	assert.NilError(t, conn.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	_, err := conn.Read(make([]byte, 1))
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestNothingIsInheritedWithoutASeam(t *testing.T) {
	t.Parallel()
	conn, _ := dial(t)
	pool := start(t, worker.Config{Workers: 1, Session: conn})
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pool.PIDs()[0]))
	assert.NilError(t, err)
	assert.Assert(t, socketsIn(t, pool.PIDs()[0]) == 0, "%v", fds)
}

func socketsIn(t *testing.T, pid int) (n int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	assert.NilError(t, err)
	for _, fd := range fds {
		if target, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}

func TestClosedSessionLeavesNothingToInherit(t *testing.T) {
	t.Parallel()
	conn, _ := dial(t)
	cfg := withSeam(conn)
	cfg.Seam.BeforeStart = func(ctx context.Context, s worker.Inheritable) error { return s.Close(ctx) }
	pool := start(t, cfg, "inherit")
	assert.NilError(t, one(t, pool, "echo:1").Err)
	assert.Equal(t, socketsIn(t, pool.PIDs()[0]), 0)
}

func TestSeamErrorsAreReported(t *testing.T) {
	t.Parallel()
	_, err := worker.Start(t.Context(), worker.Config{Seam: worker.Seam{
		BeforeStart: func(context.Context, worker.Inheritable) error { return syscall.EPERM },
	}})
	assert.ErrorIs(t, err, syscall.EPERM)

	pool := start(t, worker.Config{Workers: 1}, "compute")
	var failed *worker.JobError
	assert.Assert(t, errors.As(one(t, pool, "echo:1").Err, &failed))
	assert.Equal(t, failed.Message, "seam met echo:1 in worker 1")
}
