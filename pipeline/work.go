package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"deadwire/pipeline/dispatch"
	"deadwire/pipeline/jobs"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// workSweepMax bounds a sweep among other jobs, in batches; the next one goes on.
const workSweepMax = 40

// ErrSessionLost says that a process at work lost its coordinator's session, and with
// it the lease on its ledger rows: it must be started anew.
var ErrSessionLost = errors.New("coordinator session was lost")

// Work takes jobs from the queue until the context ends, and sweeps at intervals,
// over all processes. Its error is the context's cause, or what ended it before.
func (c *Conveyor) Work(ctx context.Context, every time.Duration) error {
	if c.cfg.MaxBatches == 0 {
		c.cfg.MaxBatches = workSweepMax
	}
	return c.coordinate(ctx, "", func(d *dispatch.Dispatcher) error {
		err := d.Join(ctx)
		if err != nil {
			return err
		}
		return jobs.Work(ctx, jobs.Config{URL: c.cfg.Database.URL, Every: every, Log: c.log}, &runner{d})
	})
}

// runner is what jobs do here.
type runner struct{ *dispatch.Dispatcher }

// Cards implements jobs.Runner. A refusal is no failure: the sweep comes again.
func (r *runner) Cards(ctx context.Context, reason string, cards []int64) error {
	_, err := r.Dispatch(ctx, r.SeedOrder(reason, cards))
	return err
}

// Sweep implements jobs.Runner.
func (r *runner) Sweep(ctx context.Context) error {
	_, err := r.Dispatcher.Sweep(ctx)
	return err
}

// Lost implements jobs.Runner.
func (r *runner) Lost() error {
	if r.Dispatcher.Lost() {
		return ErrSessionLost
	}
	return nil
}

// Enqueue asks whoever is at work for a dispatch of the named cards, all or none.
func Enqueue(ctx context.Context, database session.Config, reason string, identifiers []string) (made int, err error) {
	err = within(ctx, database, "enqueue", func(s *session.Session) error {
		return s.InTx(ctx, func(tx *session.Tx) error {
			ids, err := session.Column[int64](ctx, tx, schema.CardsNamed, identifiers)
			if err != nil {
				return fmt.Errorf("cards-named: %w", err)
			}
			if len(ids) != len(identifiers) {
				return fmt.Errorf("%d of %d cards are not in the catalogue (conveyor cards lists them)", len(identifiers)-len(ids), len(identifiers))
			}
			made, err = jobs.Enqueue(ctx, tx.Raw(), reason, ids)
			return err
		})
	})
	return made, err
}
