package deduce

import "slices"

// Vote is one agent family's vote on one card; Printing 0 stands for no match.
type Vote struct {
	Card     int64
	Family   string
	Printing int64
}

// ballotBox is what one family says about one card.
type ballotBox struct {
	card   int64
	family string
}

// Split compares, card by card, the whole set that a family proposes with the set
// that it already holds. Identical sets are counted and left alone; the others are to
// be replaced: purge exactly their cards, then insert. It must come before the purge,
// or nothing would ever be found identical.
func Split(proposed, held []Vote) (write []Vote, already int) {
	current, wanted := outcomes(held), outcomes(proposed)
	for _, vote := range proposed {
		box := ballotBox{vote.Card, vote.Family}
		if slices.Equal(current[box], wanted[box]) {
			already++
			continue
		}
		write = append(write, vote)
	}
	return write, already
}

// Superseded lists the held votes that stand where votes are to be written.
func Superseded(write, held []Vote) []Vote {
	written := outcomes(write)
	return slices.DeleteFunc(slices.Clone(held), func(v Vote) bool {
		_, replaced := written[ballotBox{v.Card, v.Family}]
		return !replaced
	})
}

// outcomes lists the printings voted for, in order.
func outcomes(votes []Vote) map[ballotBox][]int64 {
	by := map[ballotBox][]int64{}
	for _, vote := range votes {
		box := ballotBox{vote.Card, vote.Family}
		by[box] = append(by[box], vote.Printing)
	}
	for _, printings := range by {
		slices.Sort(printings)
	}
	return by
}
