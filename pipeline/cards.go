package pipeline

import (
	"context"
	"fmt"
	"strings"

	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// CardState is a card as a person needs to see it, to name it or to vote on it.
type CardState struct {
	Identifier string `json:"card"`
	Name       string `json:"name"`
	CardType   string `json:"type"`
	Status     string `json:"status"`
	Hashed     bool   `json:"hashed"`
	Extracted  bool   `json:"extracted"`
	// Votes are the printings that anybody voted for, as set code and collector number.
	Votes string `json:"votes,omitempty"`
	// LastSkip is why the card was passed by last, if it ever was.
	LastSkip string `json:"last_skip,omitempty"`
}

// Told is the most telling thing about a card, in a few words.
func (c CardState) Told() string {
	switch {
	case !c.Hashed:
		return "not readable"
	case !c.Extracted:
		return strings.TrimSpace("not extracted " + c.LastSkip)
	case c.Votes != "":
		return c.Votes
	}
	return c.LastSkip
}

// CardQuery says which cards to list; the zero value of a field asks for no bound.
type CardQuery struct {
	Like   string // a part of the name or of the identifier, in any case
	Status string // unresolved, resolved, no_match
	After  string // only cards behind this identifier
	Limit  int    // default 50
}

// Cards lists cards in the order of their identifiers.
func Cards(ctx context.Context, database session.Config, query CardQuery) (cards []CardState, err error) {
	if query.Limit <= 0 {
		query.Limit = 50
	}
	err = within(ctx, database, "cards", func(s *session.Session) error {
		cards, err = session.Rows[CardState](ctx, s, schema.CardsList, query.After, strings.ToLower(query.Like), query.Status, query.Limit)
		if err != nil {
			return fmt.Errorf("cards-list: %w", err)
		}
		return nil
	})
	return cards, err
}
