package deduce

import "strings"

// The join-key calculator's identity: the agent that its votes and skips name, the
// family that all its versions form, and the source of its votes.
const (
	JoinKeyAgent  = "stage-d-join-key-v1"
	JoinKeyFamily = "stage-d-join-key"
	JoinKeySource = "ocr"
)

// Confidences of the join-key calculator.
const (
	confidenceSetAndNumber = 0.85
	confidenceNumberOnly   = 0.75
	confidenceDisagreement = 0.65
	confidenceNoMatch      = 0.6
)

// JoinKey compares the collector line that was read on a card with the printings
// that bear its name: set code and number first, then the number alone. knownSet
// says whether the set code that was read exists at all: one that does not is
// noise of the reading and must never become a no-match.
func JoinKey(card Card, candidates []Printing, knownSet bool) Decision {
	if reason := veto(card, knownSet); reason != "" {
		return Decision{Kind: Skip, Reason: reason}
	}
	byNumber := filter(candidates, func(p Printing) bool { return normalNumber(p.Number) == normalNumber(card.Number) })
	exact := filter(byNumber, func(p Printing) bool { return strings.EqualFold(p.SetCode, card.SetCode) })
	switch {
	case len(exact) > 0:
		return only(card, exact, confidenceSetAndNumber)
	case len(byNumber) > 0:
		return only(card, byNumber, confidenceNumberOnly)
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

// only votes when exactly one printing is left.
func only(card Card, left []Printing, confidence float64) Decision {
	if len(left) > 1 {
		return Decision{Kind: Skip, Reason: Ambiguous, Survivors: ids(left)}
	}
	if card.Border != "" && left[0].Border != "" && card.Border != left[0].Border {
		confidence = confidenceDisagreement
	}
	return Decision{Kind: Match, Printing: left[0].ID, Confidence: confidence}
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
