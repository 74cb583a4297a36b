package deduce

import "math"

// Tag is one vote about an attribute of a card.
type Tag struct {
	Agent      Agent
	Card       int64
	Tag        string
	Polarity   int // 1 or -1
	Confidence float64
}

// Attributes that a border class, a frame or a bleed stands for.
const (
	TagModernFrame = "modern-frame"
	TagOldFrame    = "old-frame"
	TagBleed       = "appropriate-bleed"
)

const (
	confidenceLayout  = 0.75
	confidenceFrame   = 0.7
	confidenceBleed   = 0.8
	confidenceTrimmed = 0.7

	bleedBoth  = 2 * 3.175 // millimetres of bleed at top and bottom together
	bleedSlack = 2.0       // millimetres by which the two measurements may differ
)

// Attributes are the chips' votes about a card. A chip without evidence says nothing.
func Attributes(card Card) []Tag {
	if !card.HasEvidence {
		return nil
	}
	var tags []Tag
	if tag := borderTag(card.Border); tag != "" {
		tags = append(tags, Tag{layoutChip, card.ID, tag, 1, confidenceLayout})
	}
	switch {
	case card.Number != "":
		tags = append(tags, Tag{frameChip, card.ID, TagModernFrame, 1, confidenceFrame})
	case card.Anchor != nil && *card.Anchor:
		tags = append(tags, Tag{frameChip, card.ID, TagOldFrame, 1, confidenceFrame})
	}
	if polarity, confidence := bleed(card); polarity != 0 {
		tags = append(tags, Tag{bleedChip, card.ID, TagBleed, polarity, confidence})
	}
	return tags
}

func borderTag(border string) string {
	switch border {
	case "":
		return ""
	case "borderless":
		return border
	}
	return border + "-border"
}

// bleed believes the shape only where the resolution says the same.
func bleed(card Card) (polarity int, confidence float64) {
	switch {
	case card.BleedMM == nil:
		return 0, 0
	case card.Bleed == "bleed" && math.Abs(*card.BleedMM-bleedBoth) <= bleedSlack:
		return 1, confidenceBleed
	case card.Bleed == "none" && math.Abs(*card.BleedMM) <= bleedSlack:
		return -1, confidenceTrimmed
	}
	return 0, 0
}
