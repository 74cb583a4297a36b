package deduce

import "slices"

// Confidences of the fallback calculator.
const (
	confidenceSeveralSignals = 0.8
	confidenceOneSignal      = 0.7
)

// Fallback is for cards whose collector line found nothing: it rules out the
// printings that border, artist or symbol speak against. Exactly one must be left.
func Fallback(card Card, ref Reference) Decision {
	checks := subChecks(card, ref)
	if len(checks) == 0 {
		return Decision{Kind: Skip, Reason: NoSubCheck}
	}
	left := ref.Candidates
	for _, passes := range checks {
		left = filter(left, passes)
	}
	switch {
	case len(left) == 0:
		return Decision{Kind: Skip, Reason: NoSurvivor}
	case len(left) > 1:
		return Decision{Kind: Skip, Reason: Ambiguous, Survivors: ids(left)}
	case len(checks) > 1:
		return Decision{Kind: Match, Printing: left[0].ID, Confidence: confidenceSeveralSignals}
	}
	return Decision{Kind: Match, Printing: left[0].ID, Confidence: confidenceOneSignal}
}

// subChecks are those for which the card has evidence. A printing passes where the
// reference does not know.
func subChecks(card Card, ref Reference) []func(Printing) bool {
	var checks []func(Printing) bool
	if card.Border != "" {
		checks = append(checks, func(p Printing) bool { return p.Border == "" || p.Border == card.Border })
	}
	if card.Artist != "" {
		checks = append(checks, func(p Printing) bool {
			a := artistAgrees(card.Artist, p.Artist)
			return a == agrees || a == unknown
		})
	}
	if slices.ContainsFunc(ref.Candidates, func(p Printing) bool { _, known := symbolDistance(card, p, ref.Symbols); return known }) {
		checks = append(checks, func(p Printing) bool {
			d, known := symbolDistance(card, p, ref.Symbols)
			return !known || d <= symbolNear
		})
	}
	return checks
}
