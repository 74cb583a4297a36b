package limits

import (
	"context"
	"sync"
	"time"

	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

const (
	// degradedFor is how long the shared row is left alone after it failed twice.
	degradedFor = 5 * time.Second
	// keyPrefix begins the keys of rate rows.
	keyPrefix = "harvest-rate-cursor:"
)

// Shared paces through one row per destination in the database. The session
// "conveyor/rate" is its own and in autocommit: inside a transaction the row's lock
// would stall every other process.
type Shared struct {
	config  session.Config
	key     string
	divisor int

	mu       sync.Mutex // puts reservations of this process in line, and guards all below
	session  *session.Session
	degraded time.Time // until then the row is not asked
	next     time.Time // our own next instant, while degraded
}

// NewShared makes a pacer. divisor is how many processes may pace at a time; while
// the row is out of reach each of them takes that share and a little less.
func NewShared(config session.Config, destination Destination, divisor int) *Shared {
	return &Shared{config: config, key: keyPrefix + destination.Name, divisor: max(divisor, 1)}
}

// Reserve returns how long to wait for the reserved instant. The wait itself is
// the caller's, outside of any lock.
func (s *Shared) Reserve(ctx context.Context, gap time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.degraded) {
		return s.alone(gap)
	}
	for range 2 {
		wait, err := s.reserve(ctx, gap)
		if err == nil {
			return wait
		}
		s.drop(ctx)
		if ctx.Err() != nil {
			return 0 // the caller's own wait ends at once
		}
	}
	s.degraded = time.Now().Add(degradedFor)
	return s.alone(gap)
}

func (s *Shared) reserve(ctx context.Context, gap time.Duration) (time.Duration, error) {
	if s.session == nil {
		opened, err := session.Open(ctx, s.config, "rate")
		if err != nil {
			return 0, err
		}
		s.session = opened
	}
	seconds, err := session.Value[float64](ctx, s.session, schema.RateReserve, s.key, gap.Seconds())
	return time.Duration(seconds * float64(time.Second)), err
}

// alone paces without the row, so slowly that all processes together stay under
// the ceiling.
func (s *Shared) alone(gap time.Duration) time.Duration {
	now := time.Now()
	if s.next.Before(now) {
		s.next = now
	}
	s.next = s.next.Add(gap * time.Duration(s.divisor+1))
	return s.next.Sub(now)
}

func (s *Shared) drop(ctx context.Context) {
	if s.session == nil {
		return
	}
	_ = s.session.Close(ctx) // it has just failed; its end needs no second report
	s.session = nil
}

// Degraded says whether the row is out of reach now.
func (s *Shared) Degraded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.degraded)
}

// Close ends the session.
func (s *Shared) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil {
		return nil
	}
	err := s.session.Close(ctx)
	s.session = nil
	return err
}
