package witness

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Main must be called first in main and TestMain of every binary that starts
// subjects. In an ordinary process it returns at once with launched false. In a
// process that was started as the launcher it becomes the target and does not
// return, unless that fails: then the caller must exit with code.
func Main() (code int, launched bool) {
	value, found := os.LookupEnv(launcherVariable)
	if !found {
		return 0, false
	}
	fd, err := strconv.Atoi(value)
	if err != nil {
		return exitCannotRun, true
	}
	err = launch(fd)
	tell(fd, err)
	if errors.Is(err, unix.ENOENT) {
		return exitNotFound, true
	}
	return exitCannotRun, true
}

// launch turns this process into the target. It returns only on failure.
//
// The filter applies to the one thread that installs it and to all it starts,
// so that thread is locked, and becomes the target. The listener is sent by
// another thread, made before: a filtered thread would stop in its own sendmsg
// with nobody there to let it go on.
func launch(fd int) error {
	unix.CloseOnExec(fd)
	todo, err := readOrder(fd)
	if err != nil {
		return err
	}
	listeners, sent := make(chan int), make(chan error)
	go sendListener(fd, listeners, sent)
	runtime.LockOSThread()
	listener, err := installFilter(todo)
	if err != nil {
		close(listeners)
		tell(fd, err)
	} else {
		listeners <- listener
		if err := <-sent; err != nil {
			return err
		}
	}
	if err := awaitGo(fd); err != nil {
		return err
	}
	if err := dieWith(todo.Parent); err != nil {
		return err
	}
	return fmt.Errorf("execute %s: %w", todo.Path, syscall.Exec(todo.Path, todo.Args, todo.Env))
}

func readOrder(fd int) (order, error) {
	var todo order
	line, err := bufio.NewReader(descriptor(fd)).ReadBytes('\n')
	if err != nil {
		return todo, fmt.Errorf("read order: %w", err)
	}
	if err := json.Unmarshal(line, &todo); err != nil {
		return todo, fmt.Errorf("read order: %w", err)
	}
	return todo, nil
}

func installFilter(todo order) (int, error) {
	table, known := numbersOf(runtime.GOARCH)
	if !known {
		return -1, unix.ENOSYS
	}
	raw, err := bpf.Assemble(filter(table, choice{sends: todo.Sends, tls: todo.TLS, ring: todo.RefuseRing}))
	if err != nil {
		return -1, fmt.Errorf("assemble filter: %w", err)
	}
	program := make([]unix.SockFilter, len(raw))
	for i, ins := range raw {
		program[i] = unix.SockFilter{Code: ins.Op, Jt: ins.Jt, Jf: ins.Jf, K: ins.K}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, fmt.Errorf("give up privileges: %w", err)
	}
	return install(program)
}

// sendListener passes the listener to the supervisor and closes it here: were it
// to live on in the launcher, a dead supervisor would leave the subject waiting.
func sendListener(fd int, listeners <-chan int, sent chan<- error) {
	runtime.LockOSThread() // not unlocked: this thread is never the filtered one
	listener, installed := <-listeners
	if !installed {
		return
	}
	err := unix.Sendmsg(fd, []byte("{}\n"), unix.UnixRights(listener), nil, 0)
	sent <- errors.Join(err, unix.Close(listener))
}

// awaitGo waits for the supervisor's one byte: it now serves notifications.
func awaitGo(fd int) error {
	_, err := io.ReadFull(descriptor(fd), make([]byte, 1))
	if err != nil {
		return fmt.Errorf("wait for the supervisor: %w", err)
	}
	return nil
}

// dieWith has the kernel kill this process when its parent dies. It must be
// called on the thread that executes the target.
func dieWith(parent int) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("set the signal of the parent's death: %w", err)
	}
	if os.Getppid() != parent {
		return errors.New("the supervisor died before the target began")
	}
	return nil
}

// tell reports a failure to the supervisor. Nobody may be there to hear it.
func tell(fd int, err error) {
	told := reply{Error: err.Error()}
	var errno unix.Errno
	if errors.As(err, &errno) {
		told.Errno = int(errno)
	}
	line, _ := json.Marshal(told)
	_, _ = descriptor(fd).Write(append(line, '\n'))
}

// descriptor reads and writes with plain system calls: no file object that a
// finaliser could close, and no poller whose threads could be filtered.
type descriptor int

func (d descriptor) Read(into []byte) (int, error) {
	for {
		n, err := unix.Read(int(d), into)
		switch {
		case err == unix.EINTR: //nolint:errorlint // a raw errno
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (d descriptor) Write(from []byte) (int, error) { return unix.Write(int(d), from) }
