package worker

import (
	"context"
	"errors"
	"fmt"

	"deadwire/pipeline/frame"
)

// slot is one place in the pool; processes come and go in it
type slot struct {
	number int
	turn   chan struct{} // holds one token while a job is in hand or a process is being replaced

	// guarded by Pool.mu
	proc *process
	jobs int  // done by proc
	dead bool // proc ended unasked, or could not be replaced
}

// ready starts a process and waits until it has said that it is ready. No process is left behind on error.
func ready(ctx context.Context, cfg *Config, number int) (*process, error) {
	proc, err := spawn(cfg, number)
	if err != nil {
		return nil, err
	}
	said, exit := proc.await(ctx, cfg.StartTimeout)
	switch {
	case exit != nil:
		return nil, exit
	case said.Kind == answerReady:
		return proc, nil
	case said.Kind == answerRefused:
		proc.retire(ctx, cfg.ExitTimeout)
		return nil, &InitError{Worker: number, PID: proc.pid, Kind: said.ErrorKind, Message: said.Error}
	}
	return nil, proc.end(ctx, 0, "unknown answer")
}

// tend is the life of a slot between two deaths: it ends with the pool or with its process
func (p *Pool) tend(s *slot, proc *process) {
	for {
		select {
		case <-p.closing:
			p.leave(proc)
			return
		default:
		}
		select {
		case <-p.closing:
		case <-proc.exited:
			p.fail(s, proc.end(p.life, 0, ""))
			return
		case t := <-p.queue:
			s.turn <- struct{}{}
			next, err := p.serve(s, proc, t)
			<-s.turn
			if err != nil {
				p.fail(s, err)
				return
			}
			proc = next
		}
	}
}

// serve runs one job to its end and returns the process for the next one. An error means that the slot has none.
func (p *Pool) serve(s *slot, proc *process, t *Ticket) (*process, error) {
	if t.resolved() { // the pool broke after it was queued
		return proc, nil
	}
	job := t.take()
	if err := proc.send(job, p.cfg.JobTimeout); err != nil {
		var tooLarge *frame.TooLargeError
		if errors.As(err, &tooLarge) {
			p.resolve(t, nil, fmt.Errorf("send job %s: %w", job.ID, err))
			return proc, nil
		}
		return nil, lost(proc.end(p.life, lastWords, "does not take orders"), job)
	}
	said, exit := proc.await(p.life, p.cfg.JobTimeout)
	if exit != nil {
		return nil, lost(exit, job)
	}
	switch said.Kind {
	case answerDone:
		p.resolve(t, said.Value, nil)
	case answerError:
		p.resolve(t, nil, &JobError{Worker: s.number, PID: proc.pid, Job: job.ID, Kind: said.ErrorKind, Message: said.Error})
	default:
		return nil, lost(proc.end(p.life, 0, "unknown answer"), job)
	}
	return p.recycle(s, proc)
}

func lost(exit *ExitError, job Job) *ExitError {
	exit.Job = job.ID
	return exit
}

// recycle replaces a process that has done its share, so that what it leaks cannot grow for ever
func (p *Pool) recycle(s *slot, proc *process) (*process, error) {
	p.mu.Lock()
	s.jobs++
	due := p.cfg.RecycleAfter > 0 && s.jobs >= p.cfg.RecycleAfter
	p.mu.Unlock()
	if !due {
		return proc, nil
	}
	if exit := proc.retire(p.life, p.cfg.ExitTimeout); !exit.orderly() {
		return nil, exit
	}
	next, err := ready(p.life, &p.cfg, s.number)
	if err != nil {
		return nil, fmt.Errorf("replace worker %d: %w", s.number, err)
	}
	p.install(s, next)
	return next, nil
}

func (p *Pool) install(s *slot, proc *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.proc, s.jobs, s.dead = proc, 0, false
}

// leave ends a slot's process for good, keeping what it complained about
func (p *Pool) leave(proc *process) {
	if exit := proc.retire(p.life, p.cfg.ExitTimeout); !exit.orderly() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.unclean = append(p.unclean, exit)
	}
}
