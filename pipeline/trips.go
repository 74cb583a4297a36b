package pipeline

import (
	"context"

	"deadwire/pipeline/ledger"
	"deadwire/pipeline/session"
)

// Trips lists the envelope's newest trips, open ones first.
func Trips(ctx context.Context, database session.Config) (trips []ledger.Trip, err error) {
	err = within(ctx, database, "trip", func(s *session.Session) error {
		trips, err = ledger.Trips(ctx, s)
		return err
	})
	return trips, err
}

// ResolveTrip acknowledges an open trip with a note; only this lets work go on. It
// dispatches nothing, and a process that was locked out must be started anew as well.
func ResolveTrip(ctx context.Context, database session.Config, id, note string) error {
	return within(ctx, database, "trip", func(s *session.Session) error {
		return ledger.ResolveTrip(ctx, s, id, note)
	})
}
