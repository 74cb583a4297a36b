package deduce

// Agent is the identity under which a calculator votes and skips.
type Agent struct {
	// Name is the family with its version.
	Name string
	// Family is what all versions of the agent share.
	Family string
	// Source is the kind of its votes; the weight in a consensus goes by it.
	Source string
	// Evidence names the extractors that it reads.
	Evidence []string
}

// JoinKeyAgent considers every card first: a card without a word of it was not decided.
const JoinKeyAgent = "stage-d-join-key-v1"

// The calculators' and chips' identities.
var (
	joinKeyAgent      = Agent{JoinKeyAgent, "stage-d-join-key", "ocr", []string{"collector_line_ocr", "collector_code", "layout_class", "artist_ocr", "legal_line", "symbol_region", "quality_signals"}}
	fallbackAgent     = Agent{"stage-d-fallback-v1", "stage-d-fallback", "ocr", []string{"layout_class", "artist_ocr", "symbol_region"}}
	illustrationAgent = Agent{"stage-d-illustration-v2", "stage-d-illustration", "deduction", []string{"artist_ocr"}}
	slowPathAgent     = Agent{"stage-d-slow-path-v1", "stage-d-slow-path", "", nil}

	layoutChip = Agent{"layout-class-cast-v1", "layout-class-cast", "ocr", []string{"layout_class"}}
	frameChip  = Agent{"frame-style-cast-v1", "frame-style-cast", "ocr", []string{"collector_line_ocr", "artist_ocr"}}
	bleedChip  = Agent{"bleed-calculator-cast-v1", "bleed-calculator-cast", "ocr", []string{"geometry_bleed"}}
)

// Agents lists the calculators, in the order in which they consider a card.
func Agents() []Agent { return []Agent{joinKeyAgent, fallbackAgent, illustrationAgent, slowPathAgent} }

// Chips lists the agents that vote for attributes.
func Chips() []Agent { return []Agent{layoutChip, frameChip, bleedChip} }

// Said is what one agent made of one card.
type Said struct {
	Agent Agent
	Card  int64
	Decision
}

// Consider asks the calculators about a card, in their order: fallback has what
// join-key left, the slow path what all of them left.
func Consider(card Card, ref Reference) []Said {
	say := func(agent Agent, d Decision) Said { return Said{agent, card.ID, d} }
	byKey := JoinKey(card, ref)
	all := []Said{say(joinKeyAgent, byKey)}
	if byKey.Reason == NoEvidence {
		return all // the others would only repeat it, and for good
	}
	found := byKey.Kind == Match
	if !found {
		d := Fallback(card, ref)
		found = d.Kind == Match
		all = append(all, say(fallbackAgent, d))
	}
	d := Illustration(card, ref)
	found = found || d.Kind != Skip
	all = append(all, say(illustrationAgent, d))
	if !found {
		all = append(all, say(slowPathAgent, Decision{Kind: Skip, Reason: ToReview, Survivors: byKey.Survivors}))
	}
	return all
}
