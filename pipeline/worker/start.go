package worker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	// chosen for F_DUPFD_CLOEXEC and signal names, which package syscall lacks
	"golang.org/x/sys/unix"

	"deadwire/pipeline/frame"
)

// pipes are the three standard streams of one worker, both ends of each
type pipes struct {
	stdin, stdout, stderr     *os.File // ours
	childIn, childOut, child2 *os.File // the worker's
}

func openPipes() (p *pipes, err error) {
	p = &pipes{}
	defer func() {
		if err != nil {
			p.closeAll()
			err = fmt.Errorf("open worker pipes: %w", err)
		}
	}()
	if p.childIn, p.stdin, err = os.Pipe(); err != nil {
		return p, err
	}
	if p.stdout, p.childOut, err = os.Pipe(); err != nil {
		return p, err
	}
	p.stderr, p.child2, err = os.Pipe()
	return p, err
}

func (p *pipes) closeChild() { closeFiles(p.childIn, p.childOut, p.child2) }

func (p *pipes) closeAll() {
	p.closeChild()
	closeFiles(p.stdin, p.stdout, p.stderr)
}

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // nothing buffered, nothing to lose
		}
	}
}

// spawn starts one process and sends its greeting. It uses syscall.ForkExec and
// not os/exec because a passed socket must keep O_NONBLOCK: os/exec takes
// descriptors by File.Fd, which clears the flag on the open file description, and
// with it every read deadline of the coordinator's own session.
func spawn(cfg *Config, number int) (*process, error) {
	ends, err := openPipes()
	if err != nil {
		return nil, err
	}
	defer ends.closeChild()
	socket, err := inheritable(cfg)
	if err != nil {
		ends.closeAll()
		return nil, err
	}
	// Fd makes the worker's ends blocking, which is what any program expects of its
	// standard streams; each end of a pipe has a description of its own
	files := []uintptr{ends.childIn.Fd(), ends.childOut.Fd(), ends.child2.Fd()}
	if socket >= 0 {
		defer func() { _ = unix.Close(socket) }()
		files = append(files, uintptr(socket))
	}
	pid, err := syscall.ForkExec(cfg.Command[0], cfg.Command, &syscall.ProcAttr{Env: cfg.Env, Files: files})
	if err != nil {
		ends.closeAll()
		return nil, fmt.Errorf("start worker %d: %w", number, err)
	}
	handle, err := os.FindProcess(pid)
	if err != nil { // cannot happen on Unix; the child ends by EOF
		ends.closeAll()
		return nil, fmt.Errorf("find worker %d: %w", number, err)
	}
	proc := follow(cfg, number, handle, ends)
	hello := greeting{Worker: number, Inherited: socket >= 0}
	// an error here is a worker that died at once; whoever awaits ready learns how
	_ = ends.stdin.SetWriteDeadline(time.Now().Add(cfg.StartTimeout))
	_ = frame.NewWriter(ends.stdin, 0).WriteJSON(hello, cfg.Setup)
	return proc, nil
}

// inheritable returns a duplicate of the session's socket, close-on-exec, for the
// caller to close, or -1 when there is nothing to inherit.
func inheritable(cfg *Config) (int, error) {
	if cfg.Seam.Inherited == nil || cfg.Session == nil {
		return -1, nil
	}
	raw, err := cfg.Session.SyscallConn()
	if err != nil {
		return -1, nil // the session is gone, so a fork would inherit nothing either
	}
	socket, dupErr := -1, error(nil)
	// Control keeps the descriptor from being closed and reused meanwhile
	err = raw.Control(func(fd uintptr) {
		socket, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, inheritedFD)
	})
	switch {
	case errors.Is(err, net.ErrClosed):
		return -1, nil
	case err != nil:
		return -1, fmt.Errorf("reach session socket: %w", err)
	case dupErr != nil:
		return -1, fmt.Errorf("duplicate session socket: %w", dupErr)
	}
	return socket, nil
}
