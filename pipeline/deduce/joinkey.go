package deduce

import (
	"math/bits"
	"strings"
)

// Confidences of the join-key calculator.
const (
	confidenceSetAndNumber = 0.85
	confidenceNumberOnly   = 0.75
	confidenceDisagreement = 0.65
	confidenceNoMatch      = 0.6
)

const (
	// symbolNear is the distance up to which two symbols are the same, and by which
	// the second best must be worse.
	symbolNear = 6
	// yearSlack is how many years before its release a card may claim its copyright.
	yearSlack = 2
	// frameWithoutNumber is the frame that never bore a collector number.
	frameWithoutNumber = "1993"
)

// JoinKey compares the collector line that was read on a card with the printings
// that bear its name: set code and number first, then the number alone. A set code
// that does not exist is noise of the reading and must never become a no-match.
func JoinKey(card Card, ref Reference) Decision {
	if reason := veto(card, ref.KnownSet); reason != "" {
		return Decision{Kind: Skip, Reason: reason}
	}
	byNumber := filter(ref.Candidates, func(p Printing) bool { return normalNumber(p.Number) == normalNumber(card.Number) })
	exact := filter(byNumber, func(p Printing) bool { return strings.EqualFold(p.SetCode, card.SetCode) })
	switch {
	case len(exact) > 0:
		return only(card, exact, ref.Symbols, confidenceSetAndNumber)
	case len(byNumber) > 0:
		return only(card, byNumber, ref.Symbols, confidenceNumberOnly)
	}
	return Decision{Kind: NoMatch, Confidence: confidenceNoMatch}
}

func veto(card Card, knownSet bool) string {
	switch {
	case !card.HasEvidence:
		return NoEvidence
	case card.Truncated:
		return TruncatedImage
	case card.Number == "":
		return NoText
	case card.SetCode != "" && !knownSet:
		return UnknownSetCode
	}
	return ""
}

// only votes when exactly one printing is left, by its symbol if need be, and
// nothing else that was read speaks against it.
func only(card Card, left []Printing, symbols map[string]int64, confidence float64) Decision {
	if len(left) > 1 {
		chosen := bySymbol(card, left, symbols)
		if chosen == nil {
			return Decision{Kind: Skip, Reason: Ambiguous, Survivors: ids(left)}
		}
		left, confidence = []Printing{*chosen}, min(confidence, confidenceNumberOnly)
	}
	found := left[0]
	if reason := contradicts(card, found); reason != "" {
		return Decision{Kind: Skip, Reason: reason, Survivors: ids(left)}
	}
	bordered := card.Border == "" || found.Border == "" || card.Border == found.Border
	if !bordered || artistAgrees(card.Artist, found.Artist) == doubtful {
		confidence = confidenceDisagreement
	}
	return Decision{Kind: Match, Printing: found.ID, Confidence: confidence}
}

// contradicts names what on the card cannot be of that printing. An unread line is
// no evidence.
func contradicts(card Card, p Printing) string {
	switch {
	case card.Anchor != nil && p.Frame == frameWithoutNumber:
		return FrameMismatch
	case card.Year > 0 && p.Year > 0 && card.Year < p.Year-yearSlack:
		return YearMismatch
	case artistAgrees(card.Artist, p.Artist) == differs:
		return ArtistMismatch
	}
	return ""
}

// bySymbol is strict on purpose: a symbol says little.
func bySymbol(card Card, left []Printing, symbols map[string]int64) *Printing {
	if card.Symbol == nil {
		return nil
	}
	const far = 65
	best, next := far, far
	var chosen *Printing
	for i := range left {
		d, known := symbolDistance(card, left[i], symbols)
		if !known {
			return nil // one that was never seen may be nearer than all others
		}
		if d < best {
			best, next, chosen = d, best, &left[i]
		} else {
			next = min(next, d)
		}
	}
	if best > symbolNear || next-best <= symbolNear {
		return nil
	}
	return chosen
}

// symbolDistance is in bits, 0 to 64.
func symbolDistance(card Card, p Printing, symbols map[string]int64) (distance int, known bool) {
	symbol, known := symbols[strings.ToLower(p.SetCode)]
	if !known || card.Symbol == nil {
		return 0, false
	}
	return bits.OnesCount64(uint64(*card.Symbol ^ symbol)), true
}

func filter(printings []Printing, keep func(Printing) bool) []Printing {
	var kept []Printing
	for _, printing := range printings {
		if keep(printing) {
			kept = append(kept, printing)
		}
	}
	return kept
}
