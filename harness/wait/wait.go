// Package wait waits for facts. It is the only place in deadwire that lets time
// pass on purpose: a check says done, not yet and why, or never and why, and the
// last reason is part of the error when time runs out.
package wait

import (
	"context"
	"fmt"
	"time"
)

// pauses between two looks: short at first, since most facts are near
const (
	pauseMin = time.Millisecond
	pauseMax = 25 * time.Millisecond
)

// Answer is what a check found.
type Answer struct {
	done   bool
	never  error
	reason string
}

// Done says that the fact holds.
func Done() Answer { return Answer{done: true} }

// NotYet says that the fact does not hold so far, and what was seen instead.
func NotYet(format string, args ...any) Answer {
	return Answer{reason: fmt.Sprintf(format, args...)}
}

// Never says that the fact cannot come any more; waiting ends at once with err.
func Never(err error) Answer { return Answer{never: err} }

// For calls check until it says Done or Never, or ctx ends. what names the
// awaited fact in the error: "wait for PostgreSQL to accept connections: …".
func For(ctx context.Context, what string, check func(context.Context) Answer) error {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		answer := check(ctx)
		switch {
		case answer.done:
			return nil
		case answer.never != nil:
			return fmt.Errorf("wait for %s: %w", what, answer.never)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("wait for %s: %w (last seen: %s)", what, context.Cause(ctx), answer.reason)
		}
	}
}
