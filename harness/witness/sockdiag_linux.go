package witness

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"

	// vishvananda/netlink: its request plumbing is small, alive and complete; its
	// own SocketGet dumps the whole table, so the exact query is written here.
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// layout of struct inet_diag_req_v2 and inet_diag_msg, linux/inet_diag.h
const (
	diagRequestBytes = 56
	diagInodeOffset  = 68
	diagMessageBytes = 72
	statesAll        = 0xffffffff
)

// inodeSource finds the inode of the subject's end of a connection. Its netlink
// socket is opened at the first use and kept.
type inodeSource struct {
	mu      sync.Mutex
	sockets map[int]*nl.SocketHandle
}

// lookup returns the inode of the TCP socket bound to local and connected to
// remote, as its owner sees the two; 0 when there is none on this machine. The
// exact query of sock_diag(7) takes some 10 to 30 µs, /proc/net/tcp the rest.
func (s *inodeSource) lookup(local, remote netip.AddrPort) (uint64, error) {
	local, remote = unmap(local), unmap(remote)
	inode, err := s.query(local, remote)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return inode, nil
	}
	inode, tableErr := fromTable(local, remote)
	if tableErr != nil {
		return 0, errors.Join(err, tableErr)
	}
	return inode, nil
}

func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

func (s *inodeSource) query(local, remote netip.AddrPort) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return 0, err
	}
	request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, 0)
	request.Sockets = s.sockets
	request.AddRawData(diagRequest(local, remote))
	messages, err := request.Execute(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY)
	if err != nil {
		return 0, fmt.Errorf("query sock_diag: %w", err)
	}
	if len(messages) != 1 || len(messages[0]) < diagMessageBytes {
		return 0, errors.New("query sock_diag: an answer of unknown form")
	}
	return uint64(binary.NativeEndian.Uint32(messages[0][diagInodeOffset:])), nil
}

// open makes the netlink socket, if there is none yet. mu is held.
func (s *inodeSource) open() error {
	if s.sockets != nil {
		return nil
	}
	socket, err := nl.Subscribe(unix.NETLINK_INET_DIAG)
	if err != nil {
		return fmt.Errorf("open sock_diag: %w", err)
	}
	if err := socket.SetReceiveTimeout(&nl.SocketTimeoutTv); err != nil {
		socket.Close()
		return fmt.Errorf("bound sock_diag: %w", err)
	}
	s.sockets = map[int]*nl.SocketHandle{unix.NETLINK_INET_DIAG: {Socket: socket}}
	return nil
}

func diagRequest(local, remote netip.AddrPort) []byte {
	raw := make([]byte, diagRequestBytes)
	raw[0] = unix.AF_INET
	if local.Addr().Is6() {
		raw[0] = unix.AF_INET6
	}
	raw[1] = unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(raw[4:], statesAll)
	binary.BigEndian.PutUint16(raw[8:], local.Port())
	binary.BigEndian.PutUint16(raw[10:], remote.Port())
	copy(raw[12:28], local.Addr().AsSlice())
	copy(raw[28:44], remote.Addr().AsSlice())
	binary.NativeEndian.PutUint32(raw[48:], nl.TCPDIAG_NOCOOKIE)
	binary.NativeEndian.PutUint32(raw[52:], nl.TCPDIAG_NOCOOKIE)
	return raw
}

func (s *inodeSource) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, handle := range s.sockets {
		handle.Close()
	}
	s.sockets = nil
	return nil
}

// fromTable reads /proc/net/tcp or tcp6, see proc_net_tcp in the kernel's documentation.
func fromTable(local, remote netip.AddrPort) (uint64, error) {
	name := "/proc/net/tcp"
	if local.Addr().Is6() {
		name = "/proc/net/tcp6"
	}
	table, err := os.Open(name)
	if err != nil {
		return 0, fmt.Errorf("read socket table: %w", err)
	}
	defer table.Close() //nolint:errcheck // read only
	wanted := tableAddress(local) + " " + tableAddress(remote)
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && fields[1]+" "+fields[2] == wanted {
			return strconv.ParseUint(fields[9], 10, 64)
		}
	}
	return 0, lines.Err()
}

// tableAddress writes an address as the table does: words in host order.
func tableAddress(a netip.AddrPort) string {
	raw := a.Addr().AsSlice()
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	return fmt.Sprintf("%s:%04X", strings.ToUpper(hex.EncodeToString(raw)), a.Port())
}
