// Package worker owns the pool of compute processes: it starts them from the same
// program, hands each one job at a time over pipes, tells a job's error from a
// process's death, and waits for every child. It does not own what a job computes,
// nor any database session; the Handler does. The kernel's exit status is the
// authority on how a worker ended, the worker's own answer on how a job ended.
//
// Workers are started by fork and exec, so they inherit nothing but their three
// standard streams. They leave when their standard input ends: a killed
// coordinator therefore ends them too, after the job in hand, and no
// parent-death signal cuts a job short.
package worker

import (
	"context"
	"encoding/json"
	"os"
	"syscall"
)

// Job is one piece of work. It crosses a pipe, so it holds only data.
type Job struct {
	ID   string          // the card's identifier; names the job in errors and to Seam.Compute
	Args json.RawMessage // the handler's own parameters; may be nil
	Body []byte          // raw bytes, such as the image
}

// Handler is what a worker process does. Init, Do and Close run on one goroutine.
type Handler interface {
	// Init runs once, before any job. number is the worker's place in the pool,
	// 1..N; setup is Config.Setup. An error is reported to the coordinator as *InitError.
	Init(ctx context.Context, number int, setup []byte) error
	// Do runs one job. Its error travels back as *JobError and the worker goes on
	// to the next job; a panic ends the process, as it would anywhere else.
	Do(ctx context.Context, job Job) (json.RawMessage, error)
	// Close runs once when the worker leaves in an orderly way, also after a failed Init.
	Close()
}

// Claimer is a Handler that wants to note a job durably before anything of it can
// crash the process. Its error becomes the job's, which then is not done.
type Claimer interface {
	Claim(ctx context.Context, job Job) error
}

// Seam lets a test binary do what historical bugs did: let a worker meet the
// coordinator's session. Zero value: nothing is inherited, nothing runs.
type Seam struct {
	// BeforeStart runs in the coordinator, before the first worker starts.
	BeforeStart func(ctx context.Context, session Inheritable) error
	// Inherited runs in each worker, before Handler.Init. socket is a descriptor of
	// the coordinator's session on the same open file description, as fork would
	// give. atExit, if any, runs when the worker leaves in an orderly way.
	//
	// Serve keeps socket reachable until the worker leaves, so that no finalizer
	// closes it early. O_NONBLOCK belongs to the shared description, hence also to
	// the coordinator: read and write through socket's own methods or its
	// SyscallConn, and do not change the flag.
	//
	// Not called when the coordinator's session has no socket any more.
	Inherited func(worker int, socket *os.File) (atExit func(), err error)
	// Compute runs in the worker just before a job's Do; job is the card's
	// identifier. Its error becomes the job's.
	Compute func(worker int, job string) error
}

// Inheritable is the coordinator's session, as far as a Seam may reach for it.
type Inheritable interface {
	SyscallConn() (syscall.RawConn, error)
	Close(ctx context.Context) error
}
