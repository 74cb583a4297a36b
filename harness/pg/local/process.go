package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"deadwire/harness/pg/cluster"
)

// drainTime bounds the reading of what a dead postmaster's last children still
// have to say.
const drainTime = 2 * time.Second

// process is a postmaster that we started.
type process struct {
	identity
	handle *os.Process
	exited chan struct{}    // closed when it is reaped and its log is read
	state  *os.ProcessState // set before exited is closed
	err    error            // of waiting and reading; set before exited is closed
}

// spawn starts the postmaster and a goroutine that reads its log into log and
// reaps it.
func spawn(cmd *exec.Cmd, log *cluster.Log) (*process, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make log pipe: %w", err)
	}
	cmd.Stdout, cmd.Stderr = writer, writer
	read := make(chan error, 1)
	go func() { read <- cluster.ReadLog(reader, log.Entry) }()
	p := &process{exited: make(chan struct{})}
	started := make(chan error)
	go p.keep(cmd, started, func() error { return drain(reader, read) })
	err = <-started
	_ = writer.Close() // the child's copies are what counts
	if err != nil {
		<-p.exited
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// keep starts the child and stays on the same thread until it has ended: the
// end of that thread would count as our death.
func (p *process) keep(cmd *exec.Cmd, started chan<- error, drain func() error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.exited)
	if err := cmd.Start(); err != nil {
		started <- err
		_ = drain()
		return
	}
	p.identity, p.handle = identify(cmd.Process.Pid), cmd.Process
	started <- nil
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		p.err = fmt.Errorf("wait for postmaster %d: %w", p.PID, err)
	}
	p.state = cmd.ProcessState
	p.err = errors.Join(p.err, drain())
}

// drain waits until the log's reader has seen the end of the pipe. A child that
// outlives its postmaster keeps the pipe open; its words are not waited for.
func drain(reader *os.File, read <-chan error) error {
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case err := <-read:
		return errors.Join(err, reader.Close())
	case <-timer.C:
		return errors.Join(reader.Close(), <-read)
	}
}

// dead reports whether the postmaster has ended.
func (p *process) dead() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// signal sends a signal unless the postmaster has ended.
func (p *process) signal(s syscall.Signal) error {
	if err := p.handle.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal postmaster %d: %w", p.PID, err)
	}
	return nil
}
