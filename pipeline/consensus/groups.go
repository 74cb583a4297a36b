package consensus

import (
	"context"
	"fmt"
	"slices"

	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// Group is one whole identity group, in the order of its cards' keys.
type Group []int64

// Groups returns the identity groups of the given cards: those in which a person
// voted, since the others cannot settle, or all of them.
func Groups(ctx context.Context, q session.Querier, cards []int64, all bool) ([]Group, error) {
	type pair struct{ Root, Member int64 }
	pairs, err := session.Tuples[pair](ctx, q, schema.Groups, cards, all)
	if err != nil {
		return nil, fmt.Errorf("groups: %w", err)
	}
	var groups []Group
	for i, p := range pairs {
		if i == 0 || p.Root != pairs[i-1].Root {
			groups = append(groups, nil)
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], p.Member)
	}
	return groups, nil
}

// Lock makes all that vote on the cards or settle their groups take turns; the order
// of the keys prevents deadlock. It returns how many cards there are.
func Lock(ctx context.Context, tx *session.Tx, cards []int64, groups []Group) (locked []int64, err error) {
	all := slices.Concat(append([]Group{cards}, groups...)...)
	slices.Sort(all)
	locked, err = session.Column[int64](ctx, tx, schema.VotesLock, []int64(slices.Compact(all)))
	if err != nil {
		return nil, fmt.Errorf("votes-lock: %w", err)
	}
	return locked, nil
}

// Votes returns the votes on the cards.
func Votes(ctx context.Context, q session.Querier, groups []Group) (map[int64][]Vote, error) {
	votes, err := session.Tuples[Vote](ctx, q, schema.GroupVotes, []int64(slices.Concat(groups...)))
	if err != nil {
		return nil, fmt.Errorf("group-votes: %w", err)
	}
	by := map[int64][]Vote{}
	for _, v := range votes {
		by[v.Card] = append(by[v.Card], v)
	}
	return by, nil
}

// Of collects the votes on a group's members.
func (g Group) Of(votes map[int64][]Vote) []Vote {
	var pooled []Vote
	for _, card := range g {
		pooled = append(pooled, votes[card]...)
	}
	return pooled
}

// Settle gives every member of each group what the group's votes amount to, and
// returns the cards whose status changed. The cards must be locked.
func Settle(ctx context.Context, tx *session.Tx, groups []Group) ([]int64, error) {
	if len(groups) == 0 {
		return nil, nil
	}
	votes, err := Votes(ctx, tx, groups)
	if err != nil {
		return nil, err
	}
	var cards, printings []int64
	var statuses []string
	for _, group := range groups {
		outcome := Resolve(group.Of(votes))
		for _, card := range group {
			cards, statuses, printings = append(cards, card), append(statuses, outcome.Status), append(printings, outcome.Printing)
		}
	}
	changed, err := session.Column[int64](ctx, tx, schema.Settle, cards, statuses, printings)
	if err != nil {
		return nil, fmt.Errorf("settle: %w", err)
	}
	return changed, nil
}
