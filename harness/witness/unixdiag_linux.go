package witness

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// layout of struct unix_diag_req and unix_diag_msg, linux/unix_diag.h
const (
	unixRequestBytes = 24
	unixMessageBytes = 16
	unixShowPeer     = 4
	unixPeer         = 2 // attribute UNIX_DIAG_PEER
)

// peerOf returns the inode of the other end of a connected Unix socket.
func (s *inodeSource) peerOf(inode uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return 0, err
	}
	raw := make([]byte, unixRequestBytes)
	raw[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(raw[4:], statesAll)
	binary.NativeEndian.PutUint32(raw[8:], uint32(inode))
	binary.NativeEndian.PutUint32(raw[12:], unixShowPeer)
	binary.NativeEndian.PutUint32(raw[16:], nl.TCPDIAG_NOCOOKIE)
	binary.NativeEndian.PutUint32(raw[20:], nl.TCPDIAG_NOCOOKIE)
	request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, 0)
	request.Sockets = s.sockets
	request.AddRawData(raw)
	messages, err := request.Execute(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY)
	if err != nil {
		return 0, fmt.Errorf("query sock_diag for a Unix socket: %w", err)
	}
	if len(messages) != 1 || len(messages[0]) < unixMessageBytes {
		return 0, errors.New("query sock_diag for a Unix socket: an answer of unknown form")
	}
	attributes, err := nl.ParseRouteAttr(messages[0][unixMessageBytes:])
	if err != nil {
		return 0, fmt.Errorf("query sock_diag for a Unix socket: %w", err)
	}
	for _, a := range attributes {
		if a.Attr.Type == unixPeer && len(a.Value) >= 4 {
			return uint64(binary.NativeEndian.Uint32(a.Value)), nil
		}
	}
	return 0, errors.New("query sock_diag for a Unix socket: it names no peer")
}
