package fetch

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"golang.org/x/sync/semaphore" // chosen for its weights with first-come order
)

// All fetches side by side and yields the results in submission order. Requests
// are pulled only as far as the bounds allow: Config.Fetchers at a time, twice as
// many finished or under way, and Config.MaxInFlight bytes, where a body counts until
// the consumer asks for the next result. When the consumer stops, what is under way
// is cancelled and waited for. When ctx ends, results already there are still
// yielded, and the sequence never ends early without a Cancelled result.
//
// requests is run in a goroutine of its own and must not block for long.
func (f *Fetcher) All(ctx context.Context, requests iter.Seq[Request]) iter.Seq[Result] {
	return func(yield func(Result) bool) {
		ctx, cancel := context.WithCancel(ctx)
		o := &ordered{
			fetcher: f, stopped: make(chan struct{}), budget: semaphore.NewWeighted(f.cfg.MaxInFlight),
			fetchers: semaphore.NewWeighted(int64(f.cfg.Fetchers)),
			line:     make(chan *flight, max(0, 2*f.cfg.Fetchers-2)),
		}
		o.running.Go(func() { o.launch(ctx, requests) })
		defer o.running.Wait()
		defer close(o.stopped)
		defer cancel()
		for next := range o.line {
			<-next.landed
			more := yield(next.result)
			o.budget.Release(next.reserved)
			if !more {
				return
			}
		}
	}
}

type ordered struct {
	fetcher  *Fetcher
	budget   *semaphore.Weighted // bytes
	fetchers *semaphore.Weighted
	line     chan *flight  // in submission order; its capacity bounds how far ahead we are
	stopped  chan struct{} // closed when the consumer takes no more
	running  sync.WaitGroup
}

// flight is one fetch under way
type flight struct {
	landed   chan struct{}
	result   Result
	reserved int64 // bytes of the budget
}

// launch starts fetches one after the other. Bytes are reserved here, in
// submission order: the head of the line always has its share, so a full budget
// cannot block the one fetch that everybody waits for.
func (o *ordered) launch(ctx context.Context, requests iter.Seq[Request]) {
	defer close(o.line)
	for req := range requests {
		next := &flight{landed: make(chan struct{})}
		err := o.reserve(ctx, next)
		if err != nil {
			next.result = Result{Request: req, Outcome: Cancelled, Err: fmt.Errorf("fetch: %w", err)}
			close(next.landed)
		} else {
			o.running.Go(func() { o.fly(ctx, next, req) })
		}
		select {
		case o.line <- next:
		case <-o.stopped:
			return
		}
		if err != nil {
			return
		}
	}
}

func (o *ordered) reserve(ctx context.Context, next *flight) error {
	if err := o.budget.Acquire(ctx, o.fetcher.cfg.MaxBody); err != nil {
		return err
	}
	if err := o.fetchers.Acquire(ctx, 1); err != nil {
		o.budget.Release(o.fetcher.cfg.MaxBody)
		return err
	}
	next.reserved = o.fetcher.cfg.MaxBody
	return nil
}

// fly fetches, and gives back what it reserved and did not need
func (o *ordered) fly(ctx context.Context, next *flight, req Request) {
	defer close(next.landed)
	defer o.fetchers.Release(1)
	next.result = o.fetcher.Fetch(ctx, req)
	used := int64(len(next.result.Body))
	o.budget.Release(next.reserved - used)
	next.reserved = used
}
