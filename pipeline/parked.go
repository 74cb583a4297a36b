package pipeline

import (
	"context"
	"fmt"
	"time"

	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// parkedShown bounds a list of parked cards.
const parkedShown = 1000

// Attempt is a card whose compute did not end: it killed its worker, or the worker
// was killed over it. Parked cards are passed by until they are released.
type Attempt struct {
	Identifier  string    `json:"card"`
	Attempts    int       `json:"attempts"`
	Parked      bool      `json:"parked"`
	RunID       string    `json:"run_id"`
	Worker      string    `json:"worker"`
	Reason      string    `json:"reason"`
	AttemptedAt time.Time `json:"attempted_at"`
}

// Parked lists the cards with attempts that did not end, most attempts first.
func Parked(ctx context.Context, database session.Config) (attempts []Attempt, err error) {
	err = within(ctx, database, "parked", func(s *session.Session) error {
		attempts, err = session.Rows[Attempt](ctx, s, schema.ParkedList, parkedShown)
		if err != nil {
			return fmt.Errorf("parked-list: %w", err)
		}
		return nil
	})
	return attempts, err
}

// Release forgets the attempts on the named cards, or on all when none is named,
// so that they are tried again. It returns how many were forgotten.
func Release(ctx context.Context, database session.Config, cards []string) (released int64, err error) {
	if cards == nil {
		cards = []string{}
	}
	err = within(ctx, database, "parked", func(s *session.Session) error {
		released, err = s.Exec(ctx, schema.ParkedRelease, cards)
		if err != nil {
			return fmt.Errorf("parked-release: %w", err)
		}
		return nil
	})
	return released, err
}
