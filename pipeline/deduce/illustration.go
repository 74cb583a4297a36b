package deduce

import "slices"

const confidenceIllustration = 0.85

// Illustration finds the picture that an artist drew for a card of this name. One
// picture with one printing is a vote for it; one with several printings is a vote
// for the picture alone, and a rejection of the others of that name.
func Illustration(card Card, ref Reference) Decision {
	if card.Artist == "" {
		return Decision{Kind: Skip, Reason: ArtistUnread}
	}
	drawn := filter(ref.Candidates, func(p Printing) bool {
		return p.Illustration != "" && artistAgrees(card.Artist, p.Artist) == agrees
	})
	shown := illustrations(drawn)
	switch {
	case len(shown) == 0:
		return Decision{Kind: Skip, Reason: NoIllustration}
	case len(shown) > 1:
		return Decision{Kind: Skip, Reason: Ambiguous, Survivors: ids(drawn)}
	case len(drawn) == 1:
		return Decision{Kind: Match, Printing: drawn[0].ID, Confidence: confidenceIllustration}
	}
	others := slices.DeleteFunc(illustrations(ref.Candidates), func(id string) bool { return id == shown[0] })
	return Decision{Kind: Depicts, Illustration: shown[0], Rejected: others, Confidence: confidenceIllustration}
}

// illustrations lists the distinct ones, in order.
func illustrations(printings []Printing) []string {
	var found []string
	for _, p := range printings {
		if p.Illustration != "" {
			found = append(found, p.Illustration)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
