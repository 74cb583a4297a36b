package deduce

import "slices"

// Vote is one agent's vote on one card; Printing 0 stands for no match.
type Vote struct {
	Card       int64
	Printing   int64
	Confidence float64
}

// Split compares, card by card, the whole set that an agent proposes with the set
// that its family already holds. Identical sets are counted and left alone; the
// others are to be replaced: purge exactly their cards, then insert. It must come
// before the purge, or nothing would ever be found identical.
func Split(proposed, held []Vote) (write []Vote, already int) {
	current := outcomes(held)
	wanted := outcomes(proposed)
	for _, vote := range proposed {
		if slices.Equal(current[vote.Card], wanted[vote.Card]) {
			already++
			continue
		}
		write = append(write, vote)
	}
	return write, already
}

// outcomes lists, per card, the printings voted for, in order.
func outcomes(votes []Vote) map[int64][]int64 {
	byCard := map[int64][]int64{}
	for _, vote := range votes {
		byCard[vote.Card] = append(byCard[vote.Card], vote.Printing)
	}
	for _, printings := range byCard {
		slices.Sort(printings)
	}
	return byCard
}

// Cards lists the distinct cards of the votes, in order.
func Cards(votes []Vote) []int64 {
	cards := make([]int64, 0, len(votes))
	for _, vote := range votes {
		cards = append(cards, vote.Card)
	}
	slices.Sort(cards)
	return slices.Compact(cards)
}
