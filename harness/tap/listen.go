package tap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// portTries bounds the search for a free port.
const portTries = 16

// listen binds the tap's address. The port is always bound by number: Linux then
// keeps it for us while we do not listen on it (see refuse).
func listen(ctx context.Context, address string, remote bool) (*net.TCPListener, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("parse listen address: %w", err)
	}
	if !at.Addr().IsLoopback() && !remote {
		return nil, fmt.Errorf("listen on %s: only loopback unless remote clients are allowed", at)
	}
	for try := 1; ; try++ {
		l, err := listenOnce(ctx, at)
		if err == nil || at.Port() != 0 || try == portTries || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
}

func listenOnce(ctx context.Context, at netip.AddrPort) (*net.TCPListener, error) {
	if at.Port() == 0 {
		probe, err := listenTCP(ctx, at)
		if err != nil {
			return nil, err
		}
		at = probe.Addr().(*net.TCPAddr).AddrPort()
		if err := probe.Close(); err != nil {
			return nil, fmt.Errorf("close probe of %s: %w", at, err)
		}
	}
	return listenTCP(ctx, at)
}

func listenTCP(ctx context.Context, at netip.AddrPort) (*net.TCPListener, error) {
	var cfg net.ListenConfig
	l, err := cfg.Listen(ctx, "tcp", at.String())
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", at, err)
	}
	return l.(*net.TCPListener), nil
}
