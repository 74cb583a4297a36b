package pipeline

import (
	"context"
	"errors"

	"deadwire/pipeline/fetch"
	"deadwire/pipeline/limits"
)

// slotsDefault is how many processes are taken to pace at a time when nothing is said.
const slotsDefault = 6

// pace puts the limits of the source's destination before each fetch. A lockout is
// the fetcher's own to remember and to refuse by, after the wait as before it.
type pace struct {
	limiter *limits.Limiter
	shared  *limits.Shared // nil when nothing is paced: then no session is opened
	log     func(error)
}

func (c *Conveyor) paced() *pace {
	destination := limits.For(c.source.URL("x"))
	if c.cfg.Rate > 0 {
		destination.Rate = c.cfg.Rate
	}
	p := &pace{log: func(err error) { c.log.Warn("rate session ended badly", "error", err.Error()) }}
	if destination.Rate == 0 {
		p.limiter = limits.New(destination, nil)
		return p
	}
	slots := c.cfg.Slots
	if slots <= 0 {
		slots = slotsDefault
	}
	p.shared = limits.NewShared(c.cfg.Database, destination, slots)
	p.limiter = limits.New(destination, p.shared)
	return p
}

func (p *pace) admit(ctx context.Context, _ fetch.Request) error {
	release, err := p.limiter.Acquire(ctx)
	if errors.Is(err, limits.ErrLockedOut) {
		return nil // the fetcher refuses by its own latch, as the outcome that it is
	}
	if err != nil {
		return err
	}
	release() // the fetcher bounds how many run at a time
	return nil
}

// observe learns from an answer; 0 stands for none.
func (p *pace) observe(status int) {
	if status != 0 {
		p.limiter.Observe(status)
	}
}

func (p *pace) close(ctx context.Context) {
	if p.shared == nil {
		return
	}
	err := p.shared.Close(ctx)
	if err != nil {
		p.log(err)
	}
}
