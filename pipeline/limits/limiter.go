package limits

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	backoffMax = 16  // the widest interval, in normal intervals
	cleanRun   = 100 // answers without complaint that halve the interval again
)

// ErrLockedOut says that the destination has locked us out; it holds for the life
// of the process.
var ErrLockedOut = errors.New("destination has locked us out")

// Pacer reserves the next instant of a destination and says how long to wait for
// it. It never fails: without its means it paces more slowly.
type Pacer interface {
	Reserve(ctx context.Context, gap time.Duration) (wait time.Duration)
}

// Limiter admits requests to one destination. It is safe for concurrent use.
type Limiter struct {
	destination Destination
	pacer       Pacer
	room        chan struct{}

	mu     sync.Mutex
	factor int // of the interval: 1, 2, … 16
	clean  int
	locked bool
}

// New makes a limiter. A nil pacer paces nothing.
func New(destination Destination, pacer Pacer) *Limiter {
	l := &Limiter{destination: destination, pacer: pacer, factor: 1}
	if destination.Concurrency > 0 {
		l.room = make(chan struct{}, destination.Concurrency)
	}
	return l
}

// Acquire waits for a place and for the reserved instant. The latch is looked at
// again after each of the two, so that who queued before a lockout neither reserves
// nor sends after it. On error nothing is held; otherwise release must be called.
func (l *Limiter) Acquire(ctx context.Context) (release func(), err error) {
	if l.LockedOut() {
		return nil, ErrLockedOut
	}
	release, err = l.enter(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.paced(ctx); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// paced waits for the reserved instant, unless the destination has locked us out.
func (l *Limiter) paced(ctx context.Context) error {
	if l.LockedOut() {
		return ErrLockedOut
	}
	if err := l.pace(ctx); err != nil {
		return err
	}
	if l.LockedOut() {
		return ErrLockedOut
	}
	return nil
}

func (l *Limiter) enter(ctx context.Context) (func(), error) {
	if l.room == nil {
		return func() {}, nil
	}
	select {
	case l.room <- struct{}{}:
		return func() { <-l.room }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *Limiter) pace(ctx context.Context) error {
	gap := l.gap()
	if gap == 0 || l.pacer == nil {
		return nil
	}
	return sleep(ctx, l.pacer.Reserve(ctx, gap))
}

func sleep(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// gap is the interval between two requests, with the back-off so far.
func (l *Limiter) gap() time.Duration {
	if l.destination.Rate <= 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(float64(l.factor) * float64(time.Second) / l.destination.Rate)
}

// Observe learns from an answer's status code.
func (l *Limiter) Observe(status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.destination.lockedBy(status):
		l.locked = true
	case l.destination.slowedBy(status):
		l.factor, l.clean = min(2*l.factor, backoffMax), 0
	default:
		l.clean++
		if l.clean >= cleanRun {
			l.factor, l.clean = max(l.factor/2, 1), 0
		}
	}
}

// LockedOut says whether the destination has locked us out.
func (l *Limiter) LockedOut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.locked
}

// Factor is by how much the interval is widened now: 1 to 16.
func (l *Limiter) Factor() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.factor
}

// RoundTripper puts the limiter before a transport: it looks at the latch right
// before it sends, and learns from every answer.
func (l *Limiter) RoundTripper(next http.RoundTripper) http.RoundTripper {
	return transport{limiter: l, next: next}
}

type transport struct {
	limiter *Limiter
	next    http.RoundTripper
}

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	release, err := t.limiter.Acquire(request.Context())
	if err != nil {
		return nil, err
	}
	defer release()
	answer, err := t.next.RoundTrip(request)
	if err == nil {
		t.limiter.Observe(answer.StatusCode)
	}
	return answer, err
}

// CloseIdleConnections reaches through to the transport.
func (t transport) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}
