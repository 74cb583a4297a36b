package faultstest_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"deadwire/faults/faultstest"
	"deadwire/faults/fork"
)

// perform is what a subject does; it returns the exit code.
func perform(role string) int {
	seam, err := fork.FromEnv(os.Getenv, os.Stderr)
	if err != nil {
		return fail(err)
	}
	if seam == nil {
		seam = &fork.Runtime{Stderr: os.Stderr}
	}
	seam.Exit = os.Exit
	switch role {
	case "worker":
		err = work(seam)
	case "family":
		err = family()
	case "opener":
		err = openFiles()
	case "forker":
		err = forker(seam)
	case "forked":
		err = forked(seam)
	case "sleeper":
		untilTold()
	}
	if err != nil {
		return fail(err)
	}
	return 0
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 3
}

// untilTold waits for SIGTERM, as the end of the play.
func untilTold() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	fmt.Println("waiting")
	<-told
}

// work does three jobs, as a worker of conveyor's does.
func work(seam *fork.Runtime) error {
	fmt.Printf("{\"msg\":\"worker ready\",\"worker\":1,\"pid\":%d}\n", os.Getpid())
	for n := 1; n <= 3; n++ {
		if err := seam.Compute(1, fmt.Sprintf("job-%d", n)); err != nil {
			return err
		}
		fmt.Printf("done job-%d\n", n)
	}
	// SIGTERM keeps its default action: a worker that took it up here could be quicker
	// than the one that was sent while it stood still, and live on.
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGHUP)
	<-never
	return nil
}

// self starts this program in another role.
func self(role string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), faultstest.RoleVariable+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

// family has one child, which outlives it.
func family() error {
	child := self("sleeper")
	if err := child.Start(); err != nil {
		return err
	}
	fmt.Printf("child %d\n", child.Process.Pid)
	untilTold()
	if err := child.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return child.Wait()
}

// openFiles opens a file each time it is told to, and says how that went.
func openFiles() error {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGHUP, syscall.SIGTERM)
	fmt.Println("waiting")
	for s := range told {
		if s == syscall.SIGTERM {
			break
		}
		file, err := os.Open(os.DevNull)
		if err != nil {
			fmt.Println("refused:", err)
			continue
		}
		fmt.Println("opened", file.Name())
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}

// forker opens a session, passes its socket to a child, and uses it again when
// the child has had it.
func forker(seam *fork.Runtime) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	socket, err := duplicate(conn)
	if err != nil {
		return err
	}
	if err := seam.BeforeStart(ctx, conn.Close); err != nil {
		return err
	}
	tell, err := withChild(socket, seam.Seam.Fork != nil && seam.Seam.Fork.Do == fork.TerminateAtExit)
	if err != nil {
		return err
	}
	var text string
	err = conn.QueryRow(ctx, "select 'mine'", pgx.QueryExecModeSimpleProtocol).Scan(&text)
	fmt.Println("coordinator:", text, err)
	untilTold()
	return tell()
}

// duplicate copies the session's descriptor, close-on-exec. The one that the
// child gets must keep O_NONBLOCK, which the shared description has.
func duplicate(conn *pgx.Conn) (int, error) {
	raw, err := conn.PgConn().Conn().(syscall.Conn).SyscallConn()
	if err != nil {
		return -1, err
	}
	fd, dupErr := -1, error(nil)
	err = raw.Control(func(from uintptr) { fd, dupErr = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 3) })
	if err == nil {
		err = dupErr
	}
	return fd, err
}

// withChild starts a child that inherits the socket, and returns once it has met
// it, or with endFirst once it has ended. A child that has ended by then has had it too. syscall.ForkExec, since
// os/exec would clear O_NONBLOCK for every holder.
func withChild(socket int, endFirst bool) (tell func() error, err error) {
	in, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	theirs, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if err := os.Setenv(faultstest.RoleVariable, "forked"); err != nil { // of two values the first would count
		return nil, err
	}
	pid, err := syscall.ForkExec(os.Args[0], os.Args[:1], &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{in.Fd(), out.Fd(), 2, uintptr(socket)}})
	if err != nil {
		return nil, err
	}
	for _, file := range []*os.File{in, out} {
		_ = file.Close()
	}
	_ = unix.Close(socket)
	lines := bufio.NewScanner(theirs)
	if lines.Scan() {
		fmt.Printf("child %d %s\n", pid, lines.Text())
	}
	if endFirst {
		_ = ours.Close()
		for lines.Scan() {
			continue
		}
	}
	return func() error { return ours.Close() }, nil
}

// forked is the child: it meets the socket, and leaves when it is told to.
func forked(seam *fork.Runtime) error {
	syscall.CloseOnExec(3)
	atExit, err := seam.Inherited(1, os.NewFile(3, "inherited session"))
	if err != nil {
		return err
	}
	fmt.Println("has met the session")
	if seam.Seam.Fork != nil && seam.Seam.Fork.Do == fork.Hold {
		atExit()
		return nil
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		continue
	}
	if atExit != nil {
		atExit()
	}
	return nil
}
