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
)

// Reasons of a skip. Only NoEvidence may be scanned again in the same run.
const (
	NoEvidence     = "no-evidence"
	NoText         = "no-text"
	Ambiguous      = "ambiguous"
	UnknownSetCode = "unknown-set-code"
	TruncatedImage = "truncated-image"
)

// Decision is a calculator's answer for one card.
type Decision struct {
	Kind Kind
	// Printing is the printing's key, for Match.
	Printing int64
	// Confidence is between 0 and 1; it is recorded and never a weight.
	Confidence float64
	// Reason names a skip.
	Reason string
	// Survivors are the printings that were left when the answer was ambiguous.
	Survivors []int64
}

// Card is what the join-key calculator reads about one card.
type Card struct {
	ID          int64
	Name        string
	HasEvidence bool
	SetCode     string
	Number      string
	// Border is the border colour class that was seen, "" when none was.
	Border    string
	Truncated bool
}

// Printing is a candidate from the reference.
type Printing struct {
	ID      int64
	SetCode string
	Number  string
	Border  string
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
