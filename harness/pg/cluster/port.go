package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"syscall"
)

// Ports are taken from below the range from which the kernel serves outgoing
// connections and port 0, so that none of those can get in between, not even
// while a server restarts.
const (
	portMin      = 15_000
	ephemeralMin = 32_768 // default of Linux; others begin at 49152
	portTries    = 100
)

// FreePort returns a port on which nobody listens at this moment.
func FreePort() (int, error) {
	end := ephemeralStart()
	for range portTries {
		port := portMin + rand.IntN(end-portMin)
		free, err := PortFree(port)
		if err != nil {
			return 0, err
		}
		if free {
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a free port: %d ports between %d and %d are taken", portTries, portMin, end)
}

// PortFree tries to listen as PostgreSQL does, with SO_REUSEADDR.
func PortFree(port int) (bool, error) {
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	switch {
	case err == nil:
		return true, listener.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		return false, nil
	default:
		return false, fmt.Errorf("look for a free port: %w", err)
	}
}

func ephemeralStart() int {
	start := ephemeralMin
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(text), &start) // left at the default when unreadable
	}
	if start <= portMin+portTries {
		return ephemeralMin // the machine gives nearly all ports away: no better choice
	}
	return start
}
