//go:build unix

package subject

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalName returns a name such as SIGKILL, also for real-time signals.
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(int(sig))
}
