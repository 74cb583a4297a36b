package subject

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Reclaim makes deadwire's own process group the foreground group of a terminal
// again, after a program that had it has ended.
func Reclaim(terminal *os.File) error {
	// We stand in the background now, where the request would stop us.
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	if err := unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPGRP, syscall.Getpgrp()); err != nil {
		return fmt.Errorf("take the terminal back: %w", err)
	}
	return nil
}
