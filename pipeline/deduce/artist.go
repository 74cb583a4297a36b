package deduce

import (
	"strings"
	"unicode"

	// levenshtein: how alike two names are, where a home-made measure would differ
	"github.com/agext/levenshtein"
	"golang.org/x/text/unicode/norm"
)

// agreement is how a name that was read stands to one that the reference has.
type agreement int

const (
	unknown agreement = iota // one of them is missing
	agrees
	doubtful
	differs
)

// Similarities from which two artists are the same, or may be.
const (
	sameArtist  = 0.8
	maybeArtist = 0.5
)

func artistAgrees(read, listed string) agreement {
	if read == "" || listed == "" {
		return unknown
	}
	switch s := levenshtein.Similarity(foldArtist(read), foldArtist(listed), nil); {
	case s >= sameArtist:
		return agrees
	case s >= maybeArtist:
		return doubtful
	}
	return differs
}

// foldArtist keeps the letters of a name, without case and accents.
func foldArtist(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, norm.NFKD.String(name))
}
