package ledger

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"deadwire/pipeline/envelope"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// tripsShown bounds a list of trips.
const tripsShown = 100

// Trip is one crossing of the envelope, open until somebody acknowledges it.
type Trip struct {
	TripID         string     `json:"trip"`
	Bar            string     `json:"bar"`
	Detail         string     `json:"detail"` // JSON: what was measured, and the bar
	RunID          string     `json:"run_id,omitempty"`
	TrippedAt      time.Time  `json:"tripped_at"`
	AcknowledgedAt *time.Time `json:"acknowledged_at,omitempty"`
	Note           string     `json:"note,omitempty"`
}

// ErrNoTrip says that no trip has the id; ErrTripClosed that it was acknowledged
// before, and a closed record is not changed; ErrNoNote that no reason was given.
var (
	ErrNoTrip     = errors.New("no such trip")
	ErrTripClosed = errors.New("trip is closed already")
	ErrNoNote     = errors.New("a note must say why work may go on")
)

// OpenTrip returns the id and the bar of the newest open trip, "" for none. Any open
// trip gates every run: what tripped was the host or the source, not the run.
func OpenTrip(ctx context.Context, q session.Querier) (id, bar string, err error) {
	type open struct{ ID, Bar string }
	found, err := session.Tuples[open](ctx, q, schema.TripOpen)
	if err != nil {
		return "", "", fmt.Errorf("trip-open: %w", err)
	}
	if len(found) == 0 {
		return "", "", nil
	}
	return found[0].ID, found[0].Bar, nil
}

// RecordTrip stores a breach under a new id.
func RecordTrip(ctx context.Context, q session.Querier, breach *envelope.Breach, run string) (string, error) {
	id := tripID(time.Now())
	err := session.Expect(1)(q.Exec(ctx, schema.TripRecord, id, breach.Bar, breach.Detail, run))
	if err != nil {
		return "", fmt.Errorf("trip-record: %w", err)
	}
	return id, nil
}

func tripID(now time.Time) string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // documented never to fail
	return "envtrip-" + now.UTC().Format("20060102T150405") + "-" + hex.EncodeToString(random[:])
}

// ResolveTrip acknowledges an open trip. It dispatches nothing.
func ResolveTrip(ctx context.Context, q session.Querier, id, note string) error {
	if strings.TrimSpace(note) == "" {
		return ErrNoNote
	}
	closed, err := q.Exec(ctx, schema.TripResolve, id, note)
	if err != nil {
		return fmt.Errorf("trip-resolve: %w", err)
	}
	if closed == 1 {
		return nil
	}
	known, err := session.Value[bool](ctx, q, schema.TripKnown, id)
	switch {
	case err != nil:
		return fmt.Errorf("trip-known: %w", err)
	case known:
		return fmt.Errorf("%w: %s", ErrTripClosed, id)
	}
	return fmt.Errorf("%w: %q (conveyor trip list shows them)", ErrNoTrip, id)
}

// Trips lists the newest trips, open ones first.
func Trips(ctx context.Context, q session.Querier) ([]Trip, error) {
	trips, err := session.Rows[Trip](ctx, q, schema.TripList, tripsShown)
	if err != nil {
		return nil, fmt.Errorf("trip-list: %w", err)
	}
	return trips, nil
}
