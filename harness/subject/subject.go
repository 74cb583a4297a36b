package subject

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"deadwire/harness/event"
	"deadwire/harness/wait"
	"deadwire/harness/witness"
)

// DefaultTailLines is how many lines of output an instance keeps.
const DefaultTailLines = 40

// closeMax bounds Close when its context does not.
const closeMax = 20 * time.Second

// Command is what to run.
type Command struct {
	Path string   // looked up on PATH when it has no slash
	Args []string // without the program's name
	Env  []string // KEY=VALUE, the whole environment; nil: deadwire's own
	Dir  string   // nil string: deadwire's own

	Stdin *os.File // nil: the null device
	// Stdout and Stderr, when set, get a copy of every byte, from one goroutine
	// each. A writer that returns an error is not written to again.
	Stdout, Stderr io.Writer
	// OwnStdout and OwnStderr, when set, are given to the program as they are: what
	// it writes there is neither read nor recorded, and Stdout or Stderr is ignored.
	OwnStdout, OwnStderr *os.File
	// Terminal makes the program's process group the foreground group of the
	// terminal that Stdin must be, as an interactive program needs it. The caller
	// takes the terminal back with Reclaim when the program has ended.
	Terminal bool
}

// Owner is told of each process before its start is recorded, so that a later
// deadwire can end what a killed one left behind.
type Owner interface {
	OwnProcess(pid int) error
}

// Options configure an instance.
type Options struct {
	Recorder  event.Recorder   // required
	Witness   *witness.Witness // nil: processes are tracked, their calls are not seen
	Owner     Owner            // nil: nobody is told
	TailLines int              // of output that are kept. Defaults to DefaultTailLines.
}

// Exit is how a process ended. Exactly one of the two is meaningful.
type Exit struct {
	Code   int            // -1 when a signal ended it
	Signal syscall.Signal // 0 when it exited
}

// String returns the exit in words.
func (e Exit) String() string {
	if e.Signal != 0 {
		return "killed by " + signalName(e.Signal)
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// Instance is a running subject. Its methods may be called from any goroutine.
type Instance struct {
	cmd    *exec.Cmd
	tree   *tree
	launch *witness.Launch
	output *output
	pid    int

	exited chan struct{} // closed when the root's exit is recorded
	exit   Exit          // valid after exited is closed

	closing sync.Mutex
	closed  bool
}

// Start runs a command in a process group of its own, and returns when the
// program itself runs. ctx bounds the start only. An error of executing the
// program is that of execve(2), so errors.Is(err, fs.ErrNotExist) tells.
// The instance must be closed.
func Start(ctx context.Context, command Command, options Options) (*Instance, error) {
	if err := adoptOrphans(); err != nil {
		return nil, err
	}
	out, err := newOutput(options.Recorder, options.TailLines)
	if err != nil {
		return nil, err
	}
	processes, err := newTree(options.Recorder, options.Owner)
	if err != nil {
		return nil, errors.Join(err, out.close())
	}
	if options.Witness != nil {
		processes.onKilled(options.Witness.Look)
	}
	i := &Instance{tree: processes, output: out, exited: make(chan struct{})}
	i.cmd = i.command(command)
	if err := i.start(ctx, options.Witness); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", command.Path, err), i.Close(context.WithoutCancel(ctx)))
	}
	return i, nil
}

func (i *Instance) command(c Command) *exec.Cmd {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	cmd.Env = append(cmd.Environ(), i.tree.mark())
	cmd.SysProcAttr = processAttributes()
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	if c.Terminal {
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, int(c.Stdin.Fd())
	}
	i.output.tee(c.Stdout, c.Stderr)
	stdout, stderr := i.output.writers()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if c.OwnStdout != nil {
		cmd.Stdout = c.OwnStdout
	}
	if c.OwnStderr != nil {
		cmd.Stderr = c.OwnStderr
	}
	return cmd
}

func (i *Instance) start(ctx context.Context, w *witness.Witness) error {
	argv := i.cmd.Args // before the launcher takes their place
	if w != nil {
		launch, err := w.Wrap(i.cmd, i.tree)
		if err != nil {
			return err
		}
		i.launch = launch
	}
	started := make(chan error)
	go i.run(argv, started)
	if err := <-started; err != nil {
		return err
	}
	i.output.start()
	i.tree.start()
	if i.launch == nil {
		return nil
	}
	if err := i.launch.Serve(ctx); err != nil {
		return err
	}
	i.tree.launched()
	return nil
}

// run starts the root and waits for its end, on one thread throughout: the
// kernel sends the parent's death signal when the thread that forked ends.
func (i *Instance) run(argv []string, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := i.cmd.Start(); err != nil {
		started <- err
		return
	}
	i.pid = i.cmd.Process.Pid
	i.tree.plant(i.pid, argv, i.launch != nil && i.launch.Launched())
	started <- nil
	state, _ := i.cmd.Process.Wait() // the state says all; an error would be a second wait
	at := i.tree.recorder.Now()
	if status, ok := state.Sys().(syscall.WaitStatus); ok {
		i.exit = exitOf(status)
	}
	i.tree.ended(i.pid, at, &i.exit)
	i.output.drain()
	close(i.exited)
}

func exitOf(status syscall.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Code: -1, Signal: status.Signal()}
	}
	return Exit{Code: status.ExitStatus()}
}

// PID returns the root's pid.
func (i *Instance) PID() int { return i.pid }

// PIDs looks for new processes and returns all live ones of the tree, ascending:
// orphans too, whose parents died before they were seen.
func (i *Instance) PIDs() []int {
	i.tree.adopt()
	return i.tree.Refresh()
}

// Alive reports whether pid is a live process of this tree.
func (i *Instance) Alive(pid int) bool { return i.tree.alive(pid) }

// Tail returns the last lines of output.
func (i *Instance) Tail() []event.Output { return i.output.lastLines() }

// Certainty says whether this subject's calls are seen: witness.Exact or
// witness.Holders.
func (i *Instance) Certainty() string {
	if i.launch == nil {
		return witness.Holders
	}
	return i.launch.Certainty()
}

// Wait returns how the root ended. All it had written is recorded by then;
// other processes of the tree may live on.
func (i *Instance) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-i.exited:
		return i.exit, nil
	case <-ctx.Done():
		return Exit{}, fmt.Errorf("wait for pid %d: %w", i.pid, context.Cause(ctx))
	}
}

// Exited returns a channel that is closed when the root's exit is recorded.
func (i *Instance) Exited() <-chan struct{} { return i.exited }

// ErrNotOurs says that a pid is no live process of the tree.
var ErrNotOurs = errors.New("no live process of this subject")

// Signal sends a signal to the root only.
func (i *Instance) Signal(sig syscall.Signal) error { return i.SignalPID(i.pid, sig) }

// SignalPID sends a signal to one process of the tree, or returns ErrNotOurs.
func (i *Instance) SignalPID(pid int, sig syscall.Signal) error {
	if err := i.tree.signal(pid, sig); err != nil {
		return fmt.Errorf("signal %s to pid %d: %w", signalName(sig), pid, err)
	}
	return nil
}

// SignalGroup sends a signal to the root's process group, as a terminal does.
func (i *Instance) SignalGroup(sig syscall.Signal) error {
	if err := i.tree.signalGroup(sig); err != nil {
		return fmt.Errorf("signal %s to the group of pid %d: %w", signalName(sig), i.pid, err)
	}
	return nil
}

// Close kills every process of the tree, waits until none is left, and ends
// all that watched them. It can be called again after an error.
func (i *Instance) Close(ctx context.Context) error {
	i.closing.Lock()
	defer i.closing.Unlock()
	if i.closed {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeMax)
	defer cancel()
	if err := i.killAll(ctx); err != nil {
		return err
	}
	i.closed = true
	var errs []error
	if i.launch != nil {
		errs = append(errs, i.launch.Close(ctx))
	}
	return errors.Join(append(errs, i.output.close(), i.tree.stop())...)
}

// killAll goes round until a look at the system finds nobody: a process may
// fork between our look and our signal.
func (i *Instance) killAll(ctx context.Context) error {
	if i.pid == 0 {
		return nil
	}
	return wait.For(ctx, "the subject's processes to be gone", func(context.Context) wait.Answer {
		left := i.tree.killAll()
		if len(left) > 0 {
			return wait.NotYet("pids %v are left", left)
		}
		select {
		case <-i.exited:
			return wait.Done()
		default:
			return wait.NotYet("the root was not waited for yet")
		}
	})
}
