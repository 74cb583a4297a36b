package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
)

// Result is how a job ended.
type Result struct {
	Job   string          // its ID
	Index int             // its place among the jobs given to Run
	Value json.RawMessage // what Handler.Do returned
	Err   error           // *JobError; or, with the worker lost or the pool closed, *ExitError, ErrClosed or another
}

// Ticket stands for a submitted job.
type Ticket struct {
	job    Job // emptied when handed over, so that a waiting result does not hold an image
	done   chan struct{}
	result Result
}

func (t *Ticket) take() Job {
	job := t.job
	t.job = Job{}
	return job
}

func (t *Ticket) resolved() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// Wait returns the job's result; Err is ctx's cause when ctx ends first.
func (t *Ticket) Wait(ctx context.Context) Result {
	select {
	case <-t.done:
		return t.result
	default:
	}
	select {
	case <-t.done:
		return t.result
	case <-ctx.Done():
		return Result{Job: t.result.Job, Err: context.Cause(ctx)}
	}
}

// Submit hands a job over. While twice as many jobs as workers are pending it
// waits, at most until ctx ends. A broken pool answers *BrokenError, a closed one ErrClosed.
func (p *Pool) Submit(ctx context.Context, job Job) (*Ticket, error) {
	if len(job.Args) > 0 && !json.Valid(job.Args) {
		return nil, fmt.Errorf("submit job %s: arguments are not JSON", job.ID)
	}
	select {
	case p.room <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("submit job %s: %w", job.ID, context.Cause(ctx))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusal != nil {
		<-p.room
		return nil, p.refusal
	}
	t := &Ticket{job: job, done: make(chan struct{}), result: Result{Job: job.ID}}
	p.pending[t] = struct{}{}
	p.queue <- t // never blocks: it has room for as many tickets as there are tokens
	return t, nil
}

// Run submits jobs and delivers every result in submission order, from the
// caller's goroutine. It stops at the first error of deliver, of Submit, or when
// ctx ends, and returns it; what is pending then is waited for, unless ctx has ended,
// and not delivered. Results waiting for their turn are bounded: no more than
// four times the workers.
func (p *Pool) Run(ctx context.Context, jobs iter.Seq[Job], deliver func(Result) error) error {
	line := &lineup{limit: 4 * p.cfg.Workers, deliver: deliver}
	err := p.feed(ctx, jobs, line)
	if err == nil || errors.As(err, new(*BrokenError)) {
		err = errors.Join(line.empty(ctx), err)
	}
	line.drain(ctx)
	return err
}

func (p *Pool) feed(ctx context.Context, jobs iter.Seq[Job], line *lineup) error {
	for job := range jobs {
		t, err := p.Submit(ctx, job)
		if err != nil {
			return err
		}
		if err := line.add(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// lineup keeps results in submission order
type lineup struct {
	limit   int
	deliver func(Result) error
	waiting []*Ticket
	next    int
}

// add queues a ticket and delivers what is ready at the head; it waits for the head only when the line is full
func (l *lineup) add(ctx context.Context, t *Ticket) error {
	l.waiting = append(l.waiting, t)
	for len(l.waiting) > 0 && (l.waiting[0].resolved() || len(l.waiting) >= l.limit) {
		if err := l.head(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *lineup) empty(ctx context.Context) error {
	for len(l.waiting) > 0 {
		if err := l.head(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *lineup) head(ctx context.Context) error {
	t := l.waiting[0]
	result := t.Wait(ctx)
	if !t.resolved() {
		return result.Err
	}
	l.waiting = l.waiting[1:]
	result.Index = l.next
	l.next++
	return l.deliver(result)
}

// drain waits for what was submitted and will not be delivered, so that nothing of a failed batch runs on
func (l *lineup) drain(ctx context.Context) {
	for _, t := range l.waiting {
		t.Wait(ctx)
	}
}
