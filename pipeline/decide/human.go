package decide

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"deadwire/pipeline/consensus"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// Ballot is what a person says about a card.
type Ballot struct {
	// Card is the card's identifier.
	Card string
	// Printing is a printing's UUID, or its set code and number joined by a slash.
	Printing string
	// NoMatch says that the reference has no such printing. Without it and without a
	// printing, the person takes back what they said.
	NoMatch bool
	// Person is who says so.
	Person string
	// Admin weighs five times as much.
	Admin bool
}

// Verdict is what a ballot led to.
type Verdict struct {
	Card   string `json:"card"`
	Status string `json:"status"`
	// Group is how many cards show the same, this one included, and Changed how many of
	// them have another status now.
	Group   int `json:"group"`
	Changed int `json:"changed"`
}

// ErrUnknown says that a card or printing is not there.
var ErrUnknown = errors.New("unknown")

const personMax = 35 // bytes; the column has 40, and a prefix

// Cast stores a person's vote instead of that person's earlier one, and settles the
// card's identity group.
func Cast(ctx context.Context, s *session.Session, b Ballot) (Verdict, error) {
	card, printing, err := b.keys(ctx, s)
	if err != nil {
		return Verdict{}, err
	}
	groups, err := consensus.Groups(ctx, s, []int64{card}, true)
	if err != nil {
		return Verdict{}, err
	}
	verdict := Verdict{Card: b.Card, Group: len(groups[0])}
	err = s.InTx(ctx, func(tx *session.Tx) error {
		_, err := consensus.Lock(ctx, tx, []int64{card}, groups)
		if err != nil {
			return err
		}
		err = b.store(ctx, tx, card, printing)
		if err != nil {
			return err
		}
		changed, err := consensus.Settle(ctx, tx, groups)
		if err != nil {
			return err
		}
		verdict.Changed = len(changed)
		votes, err := consensus.Votes(ctx, tx, groups)
		verdict.Status = consensus.Resolve(groups[0].Of(votes)).Status
		return err
	})
	return verdict, err
}

func (b Ballot) keys(ctx context.Context, q session.Querier) (card, printing int64, err error) {
	if b.Person == "" || len(b.Person) > personMax {
		return 0, 0, fmt.Errorf("person %q: want 1 to %d bytes", b.Person, personMax)
	}
	card, err = one(ctx, q, "card", schema.HumanCard, b.Card)
	if err != nil || b.Printing == "" {
		return card, 0, err
	}
	printing, err = one(ctx, q, "printing", schema.HumanPrinting, b.Printing)
	return card, printing, err
}

func one(ctx context.Context, q session.Querier, kind, sql, name string) (int64, error) {
	found, err := session.Column[int64](ctx, q, sql, name)
	switch {
	case err != nil:
		return 0, fmt.Errorf("find %s: %w", kind, err)
	case len(found) != 1:
		return 0, fmt.Errorf("%s %q: %w", kind, name, ErrUnknown)
	}
	return found[0], nil
}

func (b Ballot) store(ctx context.Context, tx *session.Tx, card, printing int64) error {
	agent, source := "user:"+b.Person, "user"
	if b.Admin {
		source = "admin"
	}
	_, err := tx.Exec(ctx, schema.HumanArchive, card, agent, agent)
	if err != nil {
		return fmt.Errorf("human-archive: %w", err)
	}
	if printing == 0 && !b.NoMatch {
		return nil
	}
	err = session.Expect(1)(tx.Exec(ctx, schema.HumanVote, card, printing, agent, source))
	if err != nil {
		return fmt.Errorf("human-vote: %w", err)
	}
	return nil
}

// Propagated is what the verdicts of a run told about equal images.
type Propagated struct {
	Cards int `json:"cards"` // that were looked at
	Votes int `json:"votes"` // copied
	// Conflicts are cards to which one agent offered two printings; nothing was copied.
	Conflicts int `json:"conflicts"`
	Settled   int `json:"settled"`
}

// chunk bounds one transaction, in cards.
const chunk = 250

// Propagate is Stage C+: it copies a run's verdicts to cards with the same bytes or
// the same hash, in chunks, each in a transaction of its own. Again changes nothing.
func Propagate(ctx context.Context, s *session.Session, run string) (done Propagated, err error) {
	for after := int64(0); ; {
		cards, err := session.Column[int64](ctx, s, schema.PropagateTargets, run, after, chunk)
		if err != nil {
			return done, fmt.Errorf("propagate-targets: %w", err)
		}
		if len(cards) == 0 {
			return done, nil
		}
		groups, err := consensus.Groups(ctx, s, cards, false)
		if err != nil {
			return done, err
		}
		err = s.InTx(ctx, func(tx *session.Tx) error { return done.chunk(ctx, tx, run, cards, groups) })
		if err != nil {
			return done, err
		}
		after = cards[len(cards)-1]
	}
}

func (p *Propagated) chunk(ctx context.Context, tx *session.Tx, run string, cards []int64, groups []consensus.Group) error {
	_, err := consensus.Lock(ctx, tx, cards, groups)
	if err != nil {
		return err
	}
	type counted struct{ Votes, Conflicts int }
	counts, err := session.Tuples[counted](ctx, tx, schema.Propagate, run, cards)
	if err != nil {
		return fmt.Errorf("propagate: %w", err)
	}
	settled, err := consensus.Settle(ctx, tx, groups)
	if err != nil {
		return err
	}
	p.Cards += len(cards)
	p.Votes += counts[0].Votes
	p.Conflicts += counts[0].Conflicts
	p.Settled += len(settled)
	return nil
}

// Fidelity is the gate after a pass: it returns the cards that run voted on and whose
// groups machines alone would settle. There must be none.
func Fidelity(ctx context.Context, q session.Querier, run string) (violations []int64, err error) {
	for after := int64(0); ; {
		cards, err := session.Column[int64](ctx, q, schema.RunCards, run, after, chunk)
		if err != nil {
			return violations, fmt.Errorf("run-cards: %w", err)
		}
		if len(cards) == 0 {
			return violations, nil
		}
		groups, err := consensus.Groups(ctx, q, cards, true)
		if err != nil {
			return violations, err
		}
		votes, err := consensus.Votes(ctx, q, groups)
		if err != nil {
			return violations, err
		}
		for _, group := range groups {
			machines := slices.DeleteFunc(group.Of(votes), func(v consensus.Vote) bool { return v.Human() })
			if consensus.Resolve(machines).Status != consensus.Unresolved {
				violations = append(violations, group...)
			}
		}
		after = cards[len(cards)-1]
	}
}
