package worker

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"deadwire/pipeline/frame"
)

// lastWords is how long a dead worker's streams are still read. They end with the
// process unless a descendant holds them, which must not hold us.
const lastWords = 500 * time.Millisecond

// process is one worker process. Its owner uses send, await and retire from one
// goroutine; kill may come from anywhere.
type process struct {
	number  int
	pid     int
	handle  *os.Process
	orders  *frame.Writer
	stdin   *os.File
	answers chan answer   // closed when no more can come
	exited  chan struct{} // closed when reaped; exit is set by then

	mu     sync.Mutex
	reason string // why we killed it
	exit   ExitError
}

// follow adopts a process that was just started. All its goroutines end before exited is closed.
func follow(cfg *Config, number int, handle *os.Process, ends *pipes) *process {
	p := &process{
		number: number, pid: handle.Pid, handle: handle,
		orders: frame.NewWriter(ends.stdin, 0), stdin: ends.stdin,
		answers: make(chan answer, 1), exited: make(chan struct{}),
	}
	var last tail
	var readers sync.WaitGroup
	readers.Go(func() { p.listen(ends.stdout) })
	readers.Go(func() { last.relay(ends.stderr, cfg.stderr) })
	go func() {
		defer close(p.exited)
		state, err := handle.Wait()
		deadline := time.Now().Add(lastWords)
		_ = ends.stdout.SetReadDeadline(deadline)
		_ = ends.stderr.SetReadDeadline(deadline)
		readers.Wait()
		closeFiles(ends.stdin, ends.stdout, ends.stderr)
		p.record(state, err, &last)
	}()
	return p
}

// listen hands answers over. One answer per order fits the channel; more means
// that the worker speaks out of turn, and then nothing it says can be believed.
func (p *process) listen(stdout io.Reader) {
	defer close(p.answers)
	r := frame.NewReader(stdout, 0)
	for {
		var a answer
		if _, err := r.ReadJSON(&a); err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
				p.kill("unreadable answer: " + err.Error())
			}
			return
		}
		select {
		case p.answers <- a:
		default:
			p.kill("answer without an order")
			return
		}
	}
}

func (p *process) record(state *os.ProcessState, waitErr error, last *tail) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exit = ExitError{
		Worker: p.number, PID: p.pid, Code: -1, Reason: p.reason, Crash: last.crash, Stderr: last.lines,
	}
	if waitErr != nil {
		p.exit.Reason = "wait: " + waitErr.Error()
		return
	}
	p.exit.Code = state.ExitCode()
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		p.exit.Signal = status.Signal()
	}
}

// kill ends the process at once; the first reason given is kept
func (p *process) kill(reason string) {
	p.mu.Lock()
	if p.reason == "" {
		p.reason = reason
	}
	p.mu.Unlock()
	_ = p.handle.Kill() // an error means that it has already ended
}

// send hands one order over. A worker that does not read within limit is caught
// by the write deadline. An error other than *frame.TooLargeError means that the
// process is lost.
func (p *process) send(job Job, limit time.Duration) error {
	_ = p.stdin.SetWriteDeadline(time.Now().Add(limit))
	return p.orders.WriteJSON(order{ID: job.ID, Args: job.Args}, job.Body)
}

// await returns the next answer, or how the process ended: by itself, or killed
// because limit passed or ctx ended.
func (p *process) await(ctx context.Context, limit time.Duration) (answer, *ExitError) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case a, ok := <-p.answers:
		if ok {
			return a, nil
		}
		return answer{}, p.end(ctx, lastWords, "stdout closed")
	case <-timer.C:
		return answer{}, p.end(ctx, 0, "no answer within "+limit.String())
	case <-ctx.Done():
		return answer{}, p.end(ctx, 0, context.Cause(ctx).Error())
	}
}

// retire asks the process to leave, by the end of its input, and kills it after grace
func (p *process) retire(ctx context.Context, grace time.Duration) *ExitError {
	_ = p.stdin.Close()
	return p.end(ctx, grace, "did not leave within "+grace.String())
}

// end waits for the exit and forces it after grace, or when ctx ends
func (p *process) end(ctx context.Context, grace time.Duration, reason string) *ExitError {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		p.kill(reason)
		<-p.exited
	case <-ctx.Done():
		p.kill(context.Cause(ctx).Error())
		<-p.exited
	}
	exit := p.exit
	return &exit
}
