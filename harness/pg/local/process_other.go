//go:build !linux

package local

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"deadwire/harness/pg"
)

// childAttributes makes a child the leader of its own process group, as the
// given user. There is no signal on our death here: a sweep ends it later.
func childAttributes(as *account, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as.credential()}
}

func identify(pid int) identity { return identity{PID: pid} }

func alive(p identity) bool {
	err := syscall.Kill(p.PID, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// killChild kills a child of the postmaster. ps and kill are two steps, but a
// pid is not used again that soon.
func killChild(postmaster, pid int) error {
	out, err := output(context.Background(), "ps", "-o", "ppid=", "-p", strconv.Itoa(pid))
	if err != nil || strings.TrimSpace(out) != strconv.Itoa(postmaster) {
		return &pg.NotBackendError{PID: pid}
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill backend %d: %w", pid, err)
	}
	return nil
}
