package witness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// redirected carries out a connect in the caller's place, to another address,
// on a copy of its descriptor: nothing in the caller's memory changes. The kernel
// sees the same socket, so inode, blocking mode and options are the caller's own.
// It returns the answer of the call, and false when the caller has to connect
// itself.
func (c *caller) redirected(raw []byte, to string) (int64, bool) {
	target, err := c.target(binary.NativeEndian.Uint16(raw), to)
	if err != nil {
		c.witness.fail("redirect", err)
		return 0, false
	}
	fd, err := borrow(c.pid, c.fd())
	if err != nil { // forbidden in many containers, where writing its memory is not
		c.rewrite(raw, target, err)
		return 0, false
	}
	defer unix.Close(fd) //nolint:errcheck // a copy
	if _, six := target.(*unix.SockaddrInet6); six {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0) // the tap listens on IPv4
	}
	err = unix.Connect(fd, target)
	var errno unix.Errno
	if errors.As(err, &errno) {
		return -int64(errno), true
	}
	return 0, true
}

// borrow returns a copy of a descriptor of another process.
func borrow(pid, fd int) (int, error) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pidfd) //nolint:errcheck // only held for the call
	return unix.PidfdGetfd(pidfd, fd, 0)
}

// target returns the address to as a socket of that family can take it.
func (c *caller) target(family uint16, to string) (unix.Sockaddr, error) {
	if path, isPath := strings.CutPrefix(to, "unix:"); isPath {
		if family != unix.AF_UNIX {
			return nil, fmt.Errorf("redirect to %s: the subject's socket is of another family", to)
		}
		return &unix.SockaddrUnix{Name: path}, nil
	}
	address, err := netip.ParseAddrPort(to)
	if err != nil {
		return nil, fmt.Errorf("redirect: %w", err)
	}
	switch family {
	case unix.AF_INET:
		return &unix.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().Unmap().As4()}, nil
	case unix.AF_INET6:
		return &unix.SockaddrInet6{Port: int(address.Port()), Addr: address.Addr().As16()}, nil
	default:
		return nil, fmt.Errorf("redirect to %s: the subject's socket is of another family", to)
	}
}

// rewrite changes the address in the caller's memory, before the caller goes on
// with it.
func (c *caller) rewrite(raw []byte, target unix.Sockaddr, why error) {
	var at uint64
	var fresh []byte
	switch t := target.(type) {
	case *unix.SockaddrInet4:
		at, fresh = 2, append(binary.BigEndian.AppendUint16(nil, uint16(t.Port)), t.Addr[:]...)
	case *unix.SockaddrInet6:
		at, fresh = 2, binary.BigEndian.AppendUint16(nil, uint16(t.Port))
		fresh = append(append(fresh, raw[4:8]...), t.Addr[:]...)
	default:
		c.witness.fail("redirect", fmt.Errorf("the subject's descriptor cannot be copied: %w", why))
		return
	}
	memory, err := os.OpenFile("/proc/"+strconv.FormatUint(uint64(c.TID), 10)+"/mem", os.O_WRONLY, 0)
	if err == nil {
		_, err = memory.WriteAt(fresh, int64(c.Args[1]+at))
		err = errors.Join(err, memory.Close())
	}
	if err != nil {
		c.witness.fail("redirect", fmt.Errorf("neither the descriptor nor the memory of the subject can be had: %w", errors.Join(why, err)))
	}
}
