package cluster

import (
	"net"
	"testing"

	"gotest.tools/v3/assert"
)

func TestPortsAreOutsideTheKernelsRange(t *testing.T) {
	t.Parallel()
	for range 20 {
		port, err := FreePort()
		assert.NilError(t, err)
		assert.Assert(t, port >= portMin && port < ephemeralStart(), "port %d", port)
	}
}

func TestATakenPortIsNotFree(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	assert.NilError(t, err)
	free, err := PortFree(listener.Addr().(*net.TCPAddr).Port)
	assert.NilError(t, err)
	assert.Assert(t, !free)
	assert.NilError(t, listener.Close())
}
