package witness

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"

	"deadwire/harness/event"

	"golang.org/x/sys/unix"
)

const (
	vectorsRead = 64  // parts of one send that are looked at
	vectorBytes = 16  // struct iovec
	sockaddrMax = 128 // struct sockaddr_storage
)

// layout of struct msghdr on 64-bit Linux
const (
	msghdrVectors = 16
	msghdrBytes   = 32 // as far as it is of interest
	mmsghdrBytes  = 64 // of a struct mmsghdr, which begins with one
)

// part is one piece of a send, in the caller's memory.
type part struct{ address, length uint64 }

func (c *caller) sendto() (int64, bool) {
	return c.send([]part{{c.Args[1], c.Args[2]}})
}

func (c *caller) writev() (int64, bool) {
	parts, err := c.parts(c.Args[1], c.Args[2])
	if err != nil {
		return 0, false
	}
	return c.send(parts)
}

func (c *caller) sendmsg() (int64, bool) {
	parts, err := c.message(c.Args[1])
	if err != nil {
		return 0, false
	}
	return c.send(parts)
}

// sendmmsg takes its messages as one send, since they follow each other on a
// stream. It answers with their number, as the call does.
func (c *caller) sendmmsg() (int64, bool) {
	var all []part
	for i := range min(c.Args[2], vectorsRead) {
		parts, err := c.message(c.Args[1] + i*mmsghdrBytes)
		if err != nil {
			return 0, false
		}
		all = append(all, parts...)
	}
	_, suppressed := c.send(all)
	return int64(c.Args[2]), suppressed
}

// message returns the parts of a struct msghdr in the caller's memory.
func (c *caller) message(address uint64) ([]part, error) {
	var header [msghdrBytes]byte
	if err := c.read(address, header[:]); err != nil {
		return nil, err
	}
	return c.parts(
		binary.NativeEndian.Uint64(header[msghdrVectors:]),
		binary.NativeEndian.Uint64(header[msghdrVectors+8:]))
}

func (c *caller) parts(address, count uint64) ([]part, error) {
	raw := make([]byte, vectorBytes*min(count, vectorsRead))
	if err := c.read(address, raw); err != nil {
		return nil, err
	}
	parts := make([]part, len(raw)/vectorBytes)
	for i := range parts {
		at := raw[i*vectorBytes:]
		parts[i] = part{binary.NativeEndian.Uint64(at), binary.NativeEndian.Uint64(at[8:])}
	}
	return parts, nil
}

// send records a Terminate on any socket, and on a session's socket also what
// could be one: under TLS, or when the memory cannot be read. With the filters
// All and Senders it records others on a session's socket too.
func (c *caller) send(parts []part) (int64, bool) {
	inode, isSocket := socketInode(int(c.TID), c.fd())
	if !isSocket {
		return 0, false
	}
	total, unreadable := length(parts), error(nil)
	name := messageType(total, func(at int, into []byte) error {
		err := c.readParts(parts, at, into)
		if err != nil && at == 0 {
			unreadable = err
		}
		return err
	})
	if unreadable != nil {
		c.witness.fail("memory", fmt.Errorf("a send of pid %d could not be read: %w", c.pid, unreadable))
	}
	_, _, known := c.witness.sessions.session(inode)
	if known && total > 0 && total < headerBytes && c.completes(inode, parts, total) {
		name = terminate
	}
	doubtful := known && (unreadable != nil || c.witness.options.TLS && mayEndTLS(name, total))
	if name != terminate && !doubtful && !(known && c.tells(inode, name)) {
		return 0, false
	}
	call := event.Call{Name: event.CallSend, FD: c.fd(), Inode: inode, Bytes: total, Type: name}
	if name == terminate || doubtful {
		call.Holders = c.witness.holders(inode)
	}
	if !c.valid(c.ID) {
		return 0, false
	}
	return int64(total), c.record(call)
}

// completes reports whether a short send is the last piece of a Terminate.
func (c *caller) completes(inode uint64, parts []part, total int) bool {
	sent := make([]byte, total)
	return c.readParts(parts, 0, sent) == nil && c.witness.sessions.piece(inode, sent)
}

// tells reports whether a send that ends nothing is worth an event.
func (c *caller) tells(inode uint64, name string) bool {
	switch c.witness.options.Sends {
	case All:
		return true
	case Senders:
		asks := name != startup && name != "" && name != password
		return c.witness.sessions.sent(inode, c.pid, int(c.TID), asks)
	default:
		return false
	}
}

func length(parts []part) int {
	var total uint64
	for _, p := range parts {
		total += p.length
	}
	return int(total)
}

// readParts fills into from offset at of the parts taken as one.
func (c *caller) readParts(parts []part, at int, into []byte) error {
	skip := uint64(at)
	for _, p := range parts {
		if skip >= p.length {
			skip -= p.length
			continue
		}
		n := min(p.length-skip, uint64(len(into)))
		if err := c.read(p.address+skip, into[:n]); err != nil {
			return err
		}
		into, skip = into[n:], 0
		if len(into) == 0 {
			return nil
		}
	}
	return io.ErrUnexpectedEOF
}

// parseSockaddr returns the address of a struct sockaddr as text; false for
// families in which no session can be.
func parseSockaddr(raw []byte) (string, bool) {
	if len(raw) < 2 {
		return "", false
	}
	switch binary.NativeEndian.Uint16(raw) {
	case unix.AF_INET:
		if len(raw) < 8 {
			return "", false
		}
		address, _ := netip.AddrFromSlice(raw[4:8])
		return netip.AddrPortFrom(address, binary.BigEndian.Uint16(raw[2:])).String(), true
	case unix.AF_INET6:
		if len(raw) < 24 {
			return "", false
		}
		address, _ := netip.AddrFromSlice(raw[8:24])
		return netip.AddrPortFrom(address, binary.BigEndian.Uint16(raw[2:])).String(), true
	case unix.AF_UNIX:
		return "unix:" + unixPath(raw[2:]), true
	default:
		return "", false
	}
}

// unixPath returns a path, or an abstract name with its first byte as "@".
func unixPath(raw []byte) string {
	if len(raw) > 1 && raw[0] == 0 {
		return "@" + string(raw[1:])
	}
	for i, b := range raw {
		if b == 0 {
			return string(raw[:i])
		}
	}
	return string(raw)
}
