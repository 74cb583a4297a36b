package pipeline

import (
	"context"

	"deadwire/pipeline/decide"
	"deadwire/pipeline/session"
)

// Vote stores a person's vote and settles the card's identity group.
func Vote(ctx context.Context, database session.Config, ballot decide.Ballot) (verdict decide.Verdict, err error) {
	err = within(ctx, database, "vote", func(s *session.Session) error {
		verdict, err = decide.Cast(ctx, s, ballot)
		return err
	})
	return verdict, err
}

// Propagation is what Propagate did, and the cards that its gate found.
type Propagation struct {
	decide.Propagated
	// Violations is how many cards machines alone would settle; it must be 0.
	Violations int `json:"violations"`
}

// Propagate copies a run's verdicts to equal images (Stage C+), then asks whether
// machines alone would settle anything that the run voted on.
func Propagate(ctx context.Context, database session.Config, run string) (done Propagation, err error) {
	err = within(ctx, database, "propagate", func(s *session.Session) error {
		done, err = propagated(ctx, s, run)
		return err
	})
	return done, err
}
