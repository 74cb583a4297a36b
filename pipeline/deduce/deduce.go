// Package deduce owns the calculators: what a card's evidence says about its
// printing. It is pure: values in, decisions out, no database, no clock. Decisions
// are proposals; only a person's vote is authoritative about a card.
package deduce

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Kind says what a calculator made of a card.
type Kind int

// The kinds of decision.
const (
	// Skip abstains, with a named reason.
	Skip Kind = iota
	// Match votes for one printing.
	Match
	// NoMatch votes that no printing in the reference is shown.
	NoMatch
	// Depicts votes for an illustration that several printings share.
	Depicts
)

// Reasons of a skip. Only NoEvidence may be scanned again in the same run.
const (
	NoEvidence       = "no-evidence"
	NoText           = "no-text"
	Ambiguous        = "ambiguous"
	UnknownSetCode   = "unknown-set-code"
	TruncatedImage   = "truncated-image"
	FrameMismatch    = "frame-mismatch"
	YearMismatch     = "copyright-year-mismatch"
	ArtistMismatch   = "artist-mismatch"
	NoSubCheck       = "no-sub-check-evidence" // fallback: neither border, artist nor symbol is known
	NoSurvivor       = "no-survivor"           // fallback: what was seen rules out every candidate
	ArtistUnread     = "artist-unread"         // illustration
	NoIllustration   = "no-illustration"       // illustration: that artist drew none of this name
	ToReview         = "to-review"             // slow path: for a person
	VerdictInherited = "verdict-inherited"     // join-key: a twin's votes of this run were copied
)

// Decision is a calculator's answer for one card.
type Decision struct {
	Kind Kind
	// Printing is the printing's key, for Match.
	Printing int64
	// Illustration is the illustration's UUID for Depicts, and Rejected are those that
	// the card does not show.
	Illustration string
	Rejected     []string
	// Confidence is between 0 and 1; it is recorded and never a weight.
	Confidence float64
	// Reason names a skip.
	Reason string
	// Survivors are the printings that were left when the answer was ambiguous.
	Survivors []int64
}

// Card is what the calculators read about one card. Zero values are "not known".
type Card struct {
	ID          int64
	Name        string
	HasEvidence bool
	SetCode     string
	Number      string
	// Border is the border colour class that was seen, "" when none was.
	Border    string
	Truncated bool
	Artist    string
	// Anchor says whether "Illus." stands before the artist; nil: the line was not read.
	Anchor *bool
	Symbol *int64
	Year   int
	// Bleed is "none" or "bleed", by shape; BleedMM is what the image's height has over
	// a trimmed card's, in millimetres, by resolution.
	Bleed   string
	BleedMM *float64
}

// Printing is a candidate from the reference.
type Printing struct {
	ID           int64
	SetCode      string
	Number       string
	Border       string
	Artist       string
	Frame        string
	Year         int // of release; 0: unknown
	Illustration string
}

// Reference is what the reference knows about one card's name and reading.
type Reference struct {
	Candidates []Printing
	// KnownSet says whether the set code that was read exists at all.
	KnownSet bool
	// Symbols are perceptual hashes of set symbols, by lower-case set code, as they were
	// seen on cards that people settled.
	Symbols map[string]int64
}

// NormalName folds a name to what two spellings of it share: no case, accents,
// punctuation or spaces (scans are often named with words run together), and no
// suffix that a copy of a file gets.
func NormalName(name string) string {
	var folded strings.Builder
	for _, r := range strings.ToLower(norm.NFKD.String(stripCopySuffix(name))) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			folded.WriteRune(r)
		}
	}
	return folded.String()
}

// stripCopySuffix takes " (2)" and " - Copy" off the end of a name.
func stripCopySuffix(name string) string {
	name = strings.TrimSpace(name)
	if cut, found := strings.CutSuffix(strings.ToLower(name), " - copy"); found {
		name = strings.TrimSpace(name[:len(cut)])
	}
	open := strings.LastIndexByte(name, '(')
	if open <= 0 || !strings.HasSuffix(name, ")") {
		return name
	}
	inner := name[open+1 : len(name)-1]
	if inner == "" || strings.Trim(inner, "0123456789") != "" {
		return name
	}
	return strings.TrimSpace(name[:open])
}

// normalNumber makes collector numbers comparable: no case, no leading zeros.
func normalNumber(number string) string {
	return strings.TrimLeft(strings.ToLower(strings.TrimSpace(number)), "0")
}

func ids(printings []Printing) []int64 {
	keys := make([]int64, 0, len(printings))
	for _, printing := range printings {
		keys = append(keys, printing.ID)
	}
	slices.Sort(keys)
	return keys
}
