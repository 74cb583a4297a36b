package fork

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"deadwire/faults"
)

// Runtime does inside the subject what the seam asks for. It is filled from the
// environment, and every act says so by a marker line on Stderr.
type Runtime struct {
	Seam   faults.Seam
	Stderr io.Writer
	// Exit ends the process at once, as os.Exit does, which only a main may call.
	Exit func(code int)
	jobs int
}

// FromEnv returns the runtime that the environment asks for; nil when it asks
// for nothing. An unreadable value is an error: a fault that silently does not
// act would make a run undetermined.
func FromEnv(getenv func(string) string, stderr io.Writer) (*Runtime, error) {
	text := getenv(faults.SeamEnv)
	if text == "" {
		return nil, nil
	}
	r := &Runtime{Stderr: stderr}
	if err := json.Unmarshal([]byte(text), &r.Seam); err != nil {
		return nil, fmt.Errorf("%s: %w", faults.SeamEnv, err)
	}
	return r, nil
}

// Inherits reports whether workers need a copy of the coordinator's socket.
func (r *Runtime) Inherits() bool {
	return r.Seam.Fork != nil && r.Seam.Fork.Do != CloseBeforeStart
}

// BeforeStart runs in the coordinator, before the first worker starts.
func (r *Runtime) BeforeStart(ctx context.Context, closeSession func(context.Context) error) error {
	if r.Seam.Fork == nil || r.Seam.Fork.Do != CloseBeforeStart {
		return nil
	}
	err := closeSession(ctx)
	r.mark(r.Seam.Fork.ID, r.Seam.Fork.Do, 0, "")
	return err
}

// Inherited runs in each worker's initializer, with a descriptor of the
// coordinator's session: the same open file description, as fork gives. The
// descriptor is used raw, since a net.Conn around it would change the blocking
// mode that the coordinator shares. The returned function, which may be nil,
// belongs at the worker's orderly exit.
func (r *Runtime) Inherited(worker int, socket *os.File) (atExit func(), err error) {
	act := r.Seam.Fork
	if act == nil || (act.Worker != 0 && act.Worker != worker) {
		return nil, nil
	}
	switch act.Do {
	case Terminate:
		err = raw(socket, sendTerminate)
	case TerminateAtExit:
		return func() {
			if raw(socket, sendTerminate) == nil {
				r.mark(act.ID, act.Do, worker, "")
			}
		}, nil
	case Query:
		err = raw(socket, func(fd int) error { return sendQuery(fd, worker) })
	case Shutdown:
		err = raw(socket, func(fd int) error { return syscall.Shutdown(fd, syscall.SHUT_RDWR) })
	case Close:
		err = socket.Close()
	case Hold:
		// The coordinator's death must not take this worker along by SIGPIPE
		// on the stderr that they share.
		signal.Ignore(syscall.SIGPIPE)
		atExit = holdUntilTold
	case Discard:
	default:
		return nil, fmt.Errorf("unknown act %q", act.Do)
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ENOTCONN) || errors.Is(err, syscall.ECONNRESET) {
		return nil, nil // another worker was first; this one ended nothing
	}
	if err == nil {
		r.mark(act.ID, act.Do, worker, "")
	}
	return atExit, err
}

// raw lends the descriptor without os.File.Fd, which would make the shared
// description blocking.
func raw(socket *os.File, do func(fd int) error) error {
	conn, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var done error
	if err := conn.Control(func(fd uintptr) { done = do(int(fd)) }); err != nil {
		return err
	}
	return done
}

// holdUntilTold keeps the process, and with it the inherited descriptor, until
// SIGTERM.
func holdUntilTold() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	<-told
}

// Compute runs in a worker just before a job's compute.
func (r *Runtime) Compute(worker int, job string) error {
	act := r.Seam.Compute
	if act == nil || act.Worker != worker {
		return nil
	}
	r.jobs++
	if r.jobs != act.Nth {
		return nil
	}
	r.mark(act.ID, act.Do, worker, job)
	switch act.Do {
	case "panic":
		panic("deadwire: panic in compute, as asked for")
	case "stop":
		return syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case "allocate":
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			return err
		}
		return allocate(4 * act.LimitMB)
	case "exit":
		r.Exit(act.Code)
		return nil
	case "burn":
		return burn(time.Duration(act.MS) * time.Millisecond)
	default:
		return fmt.Errorf("unknown act %q", act.Do)
	}
}

// burn keeps a processor busy until the process has used so much of its time.
func burn(want time.Duration) error {
	var block [sha256.Size]byte
	begun, err := processorTime()
	for used := time.Duration(0); err == nil && used < want; {
		for range 256 {
			block = sha256.Sum256(block[:])
		}
		var now time.Duration
		now, err = processorTime()
		used = now - begun
	}
	return err
}

// processorTime is what this process has used so far, see getrusage(2).
func processorTime() (time.Duration, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
}

// allocate takes and touches memory in steps of one MiB, up to max MiB, and
// expects not to return.
func allocate(max int) error {
	const mib = 1 << 20
	var held [][]byte
	for len(held) < max {
		block := make([]byte, mib)
		for i := 0; i < mib; i += 4096 {
			block[i] = 1
		}
		held = append(held, block)
	}
	return fmt.Errorf("took %d MiB and the ceiling did not hold", len(held))
}

// sendTerminate writes the Terminate message (PostgreSQL protocol: 'X', length 4).
func sendTerminate(fd int) error {
	return send(fd, []byte{'X', 0, 0, 0, 4})
}

// sendQuery writes a simple query and does not read its answer.
func sendQuery(fd, worker int) error {
	text := fmt.Sprintf("select 'answer for worker %d'\x00", worker)
	message := binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(len(text)+4))
	return send(fd, append(message, text...))
}

// send writes with send(2), as libpq does. A session that is gone already is an
// error and no signal: the Go runtime takes SIGPIPE on sockets.
func send(fd int, message []byte) error {
	return syscall.Sendto(fd, message, 0, nil)
}

func (r *Runtime) mark(id, do string, worker int, job string) {
	text, err := json.Marshal(faults.Marker{ID: id, Do: do, Worker: worker, PID: os.Getpid(), Job: job})
	if err != nil {
		return
	}
	// One write for the line: several workers share this stream.
	_, _ = r.Stderr.Write(append(append([]byte(faults.MarkerPrefix), text...), '\n'))
}
