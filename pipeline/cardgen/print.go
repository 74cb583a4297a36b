package cardgen

import (
	"fmt"
	"strings"

	"deadwire/pipeline/catalogue"
)

// Coding says when the block code is printed over the collector line.
type Coding int

// CodeAuto prints it on cards that are too small for their text to be read.
const (
	CodeAuto Coding = iota
	CodeAlways
	CodeNever
)

// Misprint is what a misprinted card says wrongly.
type Misprint string

// Misprints. None of them says what is another printing's of the same name.
const (
	MisprintSet    Misprint = "unknown-set"    // a set code that does not exist
	MisprintNumber Misprint = "unknown-number" // a number that its set does not have
	MisprintArtist Misprint = "unknown-artist" // a name that drew nothing
)

var misprints = []Misprint{MisprintSet, MisprintNumber, MisprintArtist}

// print is a printing as one card shows it
type print struct {
	catalogue.Printing
	line  bool // the collector line, and the code
	year  int
	total int
}

func (p *plan) print(i int) print {
	c := p.cards[i]
	shown := print{Printing: p.printings[c.printing], line: c.role != uncoded}
	shown.year, shown.total = yearOf(shown.SetCode), p.totals[shown.SetCode]
	switch c.fault {
	case MisprintSet:
		shown.SetCode = "xqz"
	case MisprintNumber:
		shown.CollectorNumber = fmt.Sprint(shown.total + 1 + c.printing)
	case MisprintArtist:
		shown.Artist = "Iwo Jastrow"
	}
	return shown
}

// numberLine is how sets print a number: with their size until 2022, four digits since
func (p print) numberLine() string {
	digits := strings.TrimRight(p.CollectorNumber, "abcdefghijklmnopqrstuvwxyz")
	suffix := p.CollectorNumber[len(digits):]
	if p.year >= 2023 {
		return fmt.Sprintf("R %04s%s", digits, suffix)
	}
	return fmt.Sprintf("%03s%s/%03d R", digits, suffix, p.total)
}
