package fork_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/faults"
	"deadwire/faults/fork"
)

// pair returns a connected pair: a file on one end, as a worker inherits it, and
// the other end as a connection.
func pair(t *testing.T) (*os.File, net.Conn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	assert.NilError(t, err)
	mine, theirs := os.NewFile(uintptr(fds[0]), "inherited"), os.NewFile(uintptr(fds[1]), "peer")
	peer, err := net.FileConn(theirs)
	assert.NilError(t, err)
	assert.NilError(t, theirs.Close())
	t.Cleanup(func() { _ = mine.Close(); _ = peer.Close() })
	return mine, peer
}

func runtime(t *testing.T, seam faults.Seam) (*fork.Runtime, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	r, err := fork.FromEnv(func(string) string { return seam.Encode() }, &out)
	assert.NilError(t, err)
	return r, &out
}

func act(do string) faults.Seam { return faults.Seam{Fork: &faults.ForkAct{ID: "f1", Do: do}} }

func TestTerminateIsWhatLibpqSends(t *testing.T) {
	t.Parallel()
	socket, peer := pair(t)
	r, out := runtime(t, act(fork.Terminate))
	_, err := r.Inherited(2, socket)
	assert.NilError(t, err)
	got := make([]byte, 16)
	n, err := peer.Read(got)
	assert.NilError(t, err)
	assert.DeepEqual(t, got[:n], []byte{'X', 0, 0, 0, 4})
	marker, ok := faults.ParseMarker(strings.TrimSpace(out.String()))
	assert.Assert(t, ok)
	assert.DeepEqual(t, marker, faults.Marker{ID: "f1", Do: "terminate", Worker: 2, PID: os.Getpid()})
}

func TestTerminateAtExitWaitsForTheExit(t *testing.T) {
	t.Parallel()
	socket, peer := pair(t)
	r, out := runtime(t, act(fork.TerminateAtExit))
	atExit, err := r.Inherited(1, socket)
	assert.NilError(t, err)
	assert.Equal(t, out.Len(), 0)
	atExit()
	n, err := peer.Read(make([]byte, 16))
	assert.NilError(t, err)
	assert.Equal(t, n, 5)
	assert.Assert(t, strings.HasPrefix(out.String(), faults.MarkerPrefix))
}

func TestShutdownEndsTheStreamForEveryHolder(t *testing.T) {
	t.Parallel()
	socket, peer := pair(t)
	r, _ := runtime(t, act(fork.Shutdown))
	_, err := r.Inherited(1, socket)
	assert.NilError(t, err)
	n, err := peer.Read(make([]byte, 1))
	assert.Equal(t, n, 0)
	assert.ErrorContains(t, err, "EOF")
}

func TestControlsSayNothingOnTheWire(t *testing.T) {
	t.Parallel()
	for _, do := range []string{fork.Discard, fork.Hold} {
		socket, peer := pair(t)
		r, out := runtime(t, act(do))
		_, err := r.Inherited(1, socket)
		assert.NilError(t, err)
		assert.Assert(t, strings.Contains(out.String(), do))
		// Whatever the act had sent would come before this byte.
		_, err = socket.Write([]byte{'!'})
		assert.NilError(t, err)
		got := make([]byte, 8)
		n, err := peer.Read(got)
		assert.NilError(t, err)
		assert.Equal(t, string(got[:n]), "!")
	}
}

func TestOnlyTheChosenWorkerActs(t *testing.T) {
	t.Parallel()
	socket, _ := pair(t)
	seam := act(fork.Terminate)
	seam.Fork.Worker = 3
	r, out := runtime(t, seam)
	_, err := r.Inherited(2, socket)
	assert.NilError(t, err)
	assert.Equal(t, out.Len(), 0)
}

func TestCloseBeforeStartClosesTheCoordinatorsSession(t *testing.T) {
	t.Parallel()
	r, out := runtime(t, act(fork.CloseBeforeStart))
	closed := false
	assert.NilError(t, r.BeforeStart(t.Context(), func(context.Context) error { closed = true; return nil }))
	assert.Assert(t, closed)
	assert.Assert(t, !r.Inherits())
	assert.Assert(t, strings.Contains(out.String(), fork.CloseBeforeStart))
}

func TestComputeActsOnTheNthJobOfOneWorker(t *testing.T) {
	t.Parallel()
	r, _ := runtime(t, faults.Seam{Compute: &faults.ComputeAct{ID: "f2", Do: "panic", Worker: 1, Nth: 2}})
	assert.NilError(t, r.Compute(2, "other worker"))
	assert.NilError(t, r.Compute(1, "first"))
	defer func() { assert.Assert(t, recover() != nil) }()
	_ = r.Compute(1, "second")
}

func TestEnvironmentIsReadStrictly(t *testing.T) {
	t.Parallel()
	r, err := fork.FromEnv(func(string) string { return "" }, os.Stderr)
	assert.NilError(t, err)
	assert.Assert(t, r == nil)
	_, err = fork.FromEnv(func(string) string { return "{broken" }, os.Stderr)
	assert.ErrorContains(t, err, faults.SeamEnv)
}
