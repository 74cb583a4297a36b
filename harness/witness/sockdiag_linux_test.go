package witness

import (
	"net"
	"net/netip"
	"os"
	"testing"

	"gotest.tools/v3/assert"
)

// connection returns a TCP connection's client and its two addresses.
func connection(t *testing.T, network, address string) (client *net.TCPConn, local, remote netip.AddrPort) {
	t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Skipf("no %s here: %v", network, err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	conn, err := net.Dial(network, listener.Addr().String())
	assert.NilError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn), addrPort(conn.LocalAddr()), addrPort(conn.RemoteAddr())
}

func addrPort(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }

func inodeOf(t *testing.T, conn *net.TCPConn) uint64 {
	t.Helper()
	raw, err := conn.SyscallConn()
	assert.NilError(t, err)
	var inode uint64
	var isSocket bool
	assert.NilError(t, raw.Control(func(fd uintptr) { inode, isSocket = socketInode(os.Getpid(), int(fd)) }))
	assert.Assert(t, isSocket)
	return inode
}

func TestInodeIsThatOfTheClientsEnd(t *testing.T) {
	t.Parallel()
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			conn, local, remote := connection(t, network, address)
			want := inodeOf(t, conn)
			var source inodeSource
			got, err := source.lookup(local, remote)
			assert.NilError(t, err)
			assert.Equal(t, got, want)
			mapped := netip.AddrPortFrom(netip.AddrFrom16(local.Addr().As16()), local.Port())
			got, err = source.lookup(mapped, remote)
			assert.NilError(t, err)
			assert.Equal(t, got, want)
			tabled, err := fromTable(local, remote)
			assert.NilError(t, err)
			assert.Equal(t, tabled, want)
			assert.NilError(t, source.close())
		})
	}
}

func TestInodeOfAConnectionElsewhereIsZero(t *testing.T) {
	t.Parallel()
	_, local, _ := connection(t, "tcp4", "127.0.0.1:0")
	var source inodeSource
	defer source.close() //nolint:errcheck // nothing depends on it
	inode, err := source.lookup(local, netip.MustParseAddrPort("192.0.2.1:1"))
	assert.NilError(t, err)
	assert.Equal(t, inode, uint64(0))
}

func TestScanFindsWhoHoldsASocket(t *testing.T) {
	t.Parallel()
	conn, _, _ := connection(t, "tcp4", "127.0.0.1:0")
	inode := inodeOf(t, conn)
	found := scanHolders([]int{os.Getpid(), 1 << 30}, map[uint64]struct{}{inode: {}, 1: {}})
	assert.DeepEqual(t, found, map[uint64][]int{inode: {os.Getpid()}})
}

func BenchmarkInodeLookup(b *testing.B) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	assert.NilError(b, err)
	defer listener.Close() //nolint:errcheck // nothing depends on it
	conn, err := net.Dial("tcp4", listener.Addr().String())
	assert.NilError(b, err)
	defer conn.Close() //nolint:errcheck // nothing depends on it
	var source inodeSource
	for b.Loop() {
		inode, err := source.lookup(addrPort(conn.LocalAddr()), addrPort(conn.RemoteAddr()))
		assert.Assert(b, err == nil && inode != 0)
	}
}
