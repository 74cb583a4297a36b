package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup" // chosen to start workers side by side and keep the first error
)

// Config says what the workers are. Only Command or a worker mode of our own program is needed.
type Config struct {
	Command      []string      // program, then arguments that lead to its worker mode; an empty first element means our own executable
	Env          []string      // nil: our own environment
	Setup        []byte        // given to every Handler.Init, over the pipe: the place for secrets
	Workers      int           // default 3
	RecycleAfter int           // jobs after which a process is replaced; 0: never
	JobTimeout   time.Duration // a worker silent for longer is killed; default 60 s
	StartTimeout time.Duration // from start to ready; default 30 s
	ExitTimeout  time.Duration // from the end of input to exit; default 10 s
	Stderr       io.Writer     // receives the workers' stderr, line by line; default: discarded

	Seam    Seam
	Session Inheritable // the coordinator's session; used by a filled Seam only

	stderr *lineWriter
}

func (c Config) withDefaults() (Config, error) {
	if len(c.Command) == 0 || c.Command[0] == "" {
		self, err := os.Executable()
		if err != nil {
			return c, fmt.Errorf("find own program: %w", err)
		}
		c.Command = append([]string{self}, c.Command[min(1, len(c.Command)):]...)
	}
	if c.Env == nil {
		c.Env = os.Environ()
	}
	if c.Workers < 1 {
		c.Workers = 3
	}
	if c.Stderr == nil {
		c.Stderr = io.Discard
	}
	c.JobTimeout = defaultTo(c.JobTimeout, time.Minute)
	c.StartTimeout = defaultTo(c.StartTimeout, 30*time.Second)
	c.ExitTimeout = defaultTo(c.ExitTimeout, 10*time.Second)
	c.stderr = &lineWriter{to: c.Stderr}
	return c, nil
}

func defaultTo(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}

// Pool is a set of worker processes that outlives batches. Its methods are safe for concurrent use.
type Pool struct {
	cfg     Config
	life    context.Context // ends when Close runs out of patience
	die     context.CancelCauseFunc
	room    chan struct{} // one token per pending job
	queue   chan *Ticket
	closing chan struct{}
	tenders sync.WaitGroup
	healing sync.Mutex // one of Heal, Close

	mu      sync.Mutex
	slots   []*slot
	pending map[*Ticket]struct{}
	refusal error // why Submit refuses: *BrokenError or ErrClosed
	unclean []error
}

// Start runs Seam.BeforeStart, starts the workers side by side and returns when
// all are ready. On error (*ExitError, *InitError or a start error) no process is left.
func Start(ctx context.Context, config Config) (*Pool, error) {
	cfg, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.Seam.BeforeStart != nil {
		if err := cfg.Seam.BeforeStart(ctx, cfg.Session); err != nil {
			return nil, fmt.Errorf("run seam before start: %w", err)
		}
	}
	p := &Pool{
		cfg:     cfg,
		room:    make(chan struct{}, 2*cfg.Workers),
		queue:   make(chan *Ticket, 2*cfg.Workers),
		closing: make(chan struct{}),
		pending: make(map[*Ticket]struct{}),
	}
	p.life, p.die = context.WithCancelCause(context.WithoutCancel(ctx))
	for n := range cfg.Workers {
		p.slots = append(p.slots, &slot{number: n + 1, turn: make(chan struct{}, 1), dead: true})
	}
	if err := p.revive(ctx, p.slots); err != nil {
		gone, cancel := context.WithTimeout(p.life, cfg.ExitTimeout)
		defer cancel()
		_ = p.Close(gone) // what went wrong first is what matters
		return nil, err
	}
	return p, nil
}

// revive gives each of the slots a process. Slots that got one are tended even if others failed.
func (p *Pool) revive(ctx context.Context, slots []*slot) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range slots {
		group.Go(func() error {
			proc, err := ready(ctx, &p.cfg, s.number)
			if err != nil {
				return err
			}
			p.install(s, proc)
			p.tenders.Go(func() { p.tend(s, proc) })
			return nil
		})
	}
	return group.Wait()
}

// Workers is the number of worker processes that a whole pool has.
func (p *Pool) Workers() int { return p.cfg.Workers }

// PIDs returns the process ids by worker number, worker 1 first; 0 where the process has ended.
func (p *Pool) PIDs() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	pids := make([]int, len(p.slots))
	for i, s := range p.slots {
		if !s.dead {
			pids[i] = s.proc.pid
		}
	}
	return pids
}

// Pending is the number of jobs that were submitted and have not ended: at most twice the workers.
func (p *Pool) Pending() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pending)
}

// Heal makes a broken pool whole, between batches: it waits for jobs that
// survivors still have in hand, and replaces the dead. It does nothing to a whole
// pool. On error the pool stays broken and Heal may be called again.
func (p *Pool) Heal(ctx context.Context) error {
	p.healing.Lock()
	defer p.healing.Unlock()
	for {
		dead, err := p.casualties()
		if err != nil || len(dead) == 0 {
			return err
		}
		if err := p.quiesce(ctx); err != nil {
			return err
		}
		if err := p.revive(ctx, dead); err != nil {
			return fmt.Errorf("heal worker pool: %w", err)
		}
	}
}

// casualties lists the dead; when there are none, the pool accepts work again
func (p *Pool) casualties() ([]*slot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusal == ErrClosed {
		return nil, ErrClosed
	}
	var dead []*slot
	for _, s := range p.slots {
		if s.dead {
			dead = append(dead, s)
		}
	}
	if len(dead) == 0 {
		p.refusal = nil
	}
	return dead, nil
}

// quiesce waits until no survivor has a job of a failed batch in hand, and drops what is queued of it
func (p *Pool) quiesce(ctx context.Context) error {
	for _, s := range p.slots {
		select {
		case s.turn <- struct{}{}:
			<-s.turn
		case <-ctx.Done():
			return fmt.Errorf("wait for worker %d to end its job: %w", s.number, context.Cause(ctx))
		}
	}
	for {
		select {
		case <-p.queue:
		default:
			return nil
		}
	}
}

// fail records a death: the pool refuses from now on and every pending job ends with cause
func (p *Pool) fail(s *slot, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.dead = true
	if p.refusal == ErrClosed {
		p.unclean = append(p.unclean, cause)
	}
	p.refuse(&BrokenError{Cause: cause}, cause)
}

// refuse ends every pending job with cause; the first refusal is kept, but ErrClosed is final
func (p *Pool) refuse(refusal, cause error) {
	if p.refusal == nil || refusal == ErrClosed {
		p.refusal = refusal
	}
	for t := range p.pending {
		p.settle(t, nil, cause)
	}
}

func (p *Pool) resolve(t *Ticket, value json.RawMessage, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(t, value, err)
}

// settle ends a job once; later answers of a worker whose batch has failed are dropped
func (p *Pool) settle(t *Ticket, value json.RawMessage, err error) {
	if _, open := p.pending[t]; !open {
		return
	}
	delete(p.pending, t)
	t.result.Value, t.result.Err = value, err
	close(t.done)
	<-p.room
}

// Close refuses further work, fails what is pending with ErrClosed, lets each
// worker end its job and leave, and waits for every one of them. When ctx ends,
// those left are killed. The error lists workers that did not leave in order.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	first := p.refusal != ErrClosed
	p.refuse(ErrClosed, ErrClosed)
	p.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { p.die(errImpatient) })
	defer stop()
	p.healing.Lock()
	defer p.healing.Unlock()
	if first {
		close(p.closing)
	}
	p.tenders.Wait()
	p.die(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.unclean...)
}
