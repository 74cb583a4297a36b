package witness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// handshakeMax bounds the time from the launcher's start to the target's.
const handshakeMax = 20 * time.Second

// Launch is one subject's root process on its way through the launcher, and
// then the service of its tree's notifications.
type Launch struct {
	witness *Witness
	tree    Tracker
	order   order
	ours    *net.UnixConn // nil when the launcher is not used
	theirs  *os.File
	server  *supervisor // nil under the holders witness
}

// Wrap makes cmd, not yet started, go through the launcher, and has the witness
// look at tree from now on. When the exact witness is not available cmd stays as
// it is. The caller starts cmd, then calls Serve, and at the end Close.
func (w *Witness) Wrap(cmd *exec.Cmd, tree Tracker) (*Launch, error) {
	if _, launched := os.LookupEnv(launcherVariable); launched {
		return nil, errMainNotCalled
	}
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	l := &Launch{witness: w, tree: tree}
	if w.unavailable == nil {
		if err := l.redirect(cmd); err != nil {
			return nil, err
		}
	}
	w.attach(tree)
	return l, nil
}

// redirect puts our own binary, as the launcher, in the place of the target.
func (l *Launch) redirect(cmd *exec.Cmd) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	l.ours, l.theirs = ours, theirs
	l.order = order{
		Path: cmd.Path, Args: cmd.Args, Env: cmd.Environ(),
		Sends: l.witness.options.Sends, TLS: l.witness.options.TLS,
		RefuseRing: l.witness.options.RefuseRing,
		Parent:     os.Getpid(),
	}
	cmd.Path = "/proc/self/exe" // still ours if the file was replaced meanwhile
	cmd.Args = []string{LauncherName}
	cmd.ExtraFiles = append(cmd.ExtraFiles, theirs)
	cmd.Env = []string{launcherVariable + "=" + strconv.Itoa(2+len(cmd.ExtraFiles))}
	return nil
}

func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("pair sockets: %w", err)
	}
	file, theirs := os.NewFile(uintptr(fds[0]), "launcher"), os.NewFile(uintptr(fds[1]), "supervisor")
	defer file.Close() //nolint:errcheck // duplicated by FileConn
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("pair sockets: %w", err), theirs.Close())
	}
	return conn.(*net.UnixConn), theirs, nil
}

// Serve is called once after cmd was started. It returns when the target runs,
// with its notifications being served, or why it does not run. A kernel that
// refuses the filter is no error: the target runs, and holders are all there is.
func (l *Launch) Serve(ctx context.Context) error {
	if l.ours == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeMax)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.ours.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	// Our copy of the far end must go, or its end would never show.
	err := errors.Join(l.theirs.Close(), l.handshake())
	if ctx.Err() != nil && err != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return err
}

func (l *Launch) handshake() error {
	if err := json.NewEncoder(l.ours).Encode(l.order); err != nil {
		return fmt.Errorf("order the launcher: %w", err)
	}
	listener, refused, err := l.receiveListener()
	if err != nil {
		return err
	}
	if refused != nil {
		l.fallBack(refused)
	} else {
		l.server, err = serve(l.witness, l.tree, listener)
		if err != nil {
			return errors.Join(err, unix.Close(listener))
		}
	}
	if _, err := l.ours.Write([]byte{1}); err != nil {
		return fmt.Errorf("release the launcher: %w", err)
	}
	return l.awaitTarget()
}

// receiveListener returns the listener, or why the launcher has none.
func (l *Launch) receiveListener() (fd int, refused, err error) {
	text, control := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	n, controlled, _, _, err := l.ours.ReadMsgUnix(text, control)
	if err != nil || n == 0 {
		return -1, nil, fmt.Errorf("hear from the launcher: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	var told reply
	if err := json.Unmarshal(text[:n], &told); err != nil {
		return -1, nil, fmt.Errorf("hear from the launcher: %w", err)
	}
	if told.Error != "" {
		return -1, refusal(told.err()), nil
	}
	messages, err := unix.ParseSocketControlMessage(control[:controlled])
	if err != nil || len(messages) != 1 {
		return -1, nil, fmt.Errorf("receive the listener: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, nil, fmt.Errorf("receive the listener: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	unix.CloseOnExec(fds[0])
	return fds[0], nil, nil
}

// awaitTarget reads until the launcher's socket is closed by a successful exec,
// or until the launcher says what went wrong.
func (l *Launch) awaitTarget() error {
	text, err := io.ReadAll(l.ours)
	if err != nil {
		return fmt.Errorf("wait for the target: %w", err)
	}
	if len(text) == 0 {
		return nil
	}
	var told reply
	if err := json.Unmarshal(text, &told); err != nil {
		return fmt.Errorf("wait for the target: %w", err)
	}
	return told.err()
}

func (r reply) err() error {
	if r.Errno != 0 {
		return &launchError{text: r.Error, errno: unix.Errno(r.Errno)}
	}
	return errors.New(r.Error)
}

// launchError is a failure in the launcher, as if it had happened here.
type launchError struct {
	text  string
	errno unix.Errno
}

func (e *launchError) Error() string { return e.text }
func (e *launchError) Unwrap() error { return e.errno }

func (l *Launch) fallBack(reason error) {
	l.witness.mu.Lock()
	l.witness.fellBack = true
	l.witness.mu.Unlock()
	l.witness.fail("exact witness", reason)
}

// Certainty returns Exact when this subject's calls are being notified.
func (l *Launch) Certainty() string {
	if l.server != nil {
		return Exact
	}
	return Holders
}

// Launched reports whether the root process began as the launcher, and so has
// executed once more than its command says.
func (l *Launch) Launched() bool { return l.ours != nil }

// Close ends the service. The tree must be gone: calls of processes that still
// live would fail with ENOSYS. It can be called after a failed start, and twice.
func (l *Launch) Close(ctx context.Context) error {
	l.witness.detach(l.tree)
	var errs []error
	if l.ours != nil {
		errs = append(errs, closedOnce(l.ours.Close()), closedOnce(l.theirs.Close()))
	}
	if l.server != nil {
		errs = append(errs, l.server.stop(ctx))
	}
	return errors.Join(errs...)
}

func closedOnce(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
