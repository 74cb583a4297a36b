//go:build !linux

package tap

import "net"

// refuse has no equivalent here; the accept loop resets what it accepts instead.
func refuse(*net.TCPListener, bool) error { return nil }
