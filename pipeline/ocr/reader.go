package ocr

import (
	"context"
	"errors"
	"image"
	"os"
	"strings"

	"deadwire/pipeline/evidence"
)

// Shortcircuit says whether the second tier is left out when the first saw text
// without any digit. The zero value asks the environment at each reading.
type Shortcircuit int

// An explicit Off is not the same as FromEnvironment.
const (
	FromEnvironment Shortcircuit = iota
	On
	Off
)

// noShortcircuit is the environment variable that turns the short-circuit off.
const noShortcircuit = "STAGE_C_NO_SHORTCIRCUIT"

func (s Shortcircuit) on() bool {
	if s == FromEnvironment {
		value := os.Getenv(noShortcircuit)
		return value == "" || value == "0" || strings.EqualFold(value, "false")
	}
	return s == On
}

// Reader reads cards' small print. It implements evidence.TextReader and is safe
// for concurrent use.
type Reader struct {
	Engine       *Engine
	Lexicon      *Lexicon
	Shortcircuit Shortcircuit
}

// Magnifications of the ladder's two tiers, and of the other lines.
const (
	firstTier  = 3
	secondTier = 5
	otherLines = 2
)

// ReadText reads a page. One call of the engine does for most cards.
func (r *Reader) ReadText(ctx context.Context, page evidence.Page) evidence.Text {
	grey := crop(page.Grey, page.Crops.CollectorLine, firstTier)
	texts, err := r.Engine.read(ctx, []*image.Gray{
		grey, twoTone(grey),
		crop(page.Grey, page.Crops.Artist, otherLines), crop(page.Grey, page.Crops.Legal, otherLines),
	})
	if err != nil {
		return failure(err)
	}
	found := evidence.Text{Artist: strings.TrimSpace(texts[2]), Legal: strings.TrimSpace(texts[3])}
	found.ArtistName, found.ArtistAnchor = parseArtist(found.Artist, r.Lexicon)
	if found.ArtistName == "" { // the narrower crop sometimes reads what the wider one lost
		if name, anchored := parseArtist(found.Legal, r.Lexicon); name != "" {
			found.ArtistName, found.ArtistAnchor = name, found.ArtistAnchor || anchored
		}
	}
	found.Year = parseYear(found.Legal)
	l := ladder{reader: r, artist: found.ArtistName}
	l.show(texts[:2])
	if l.wantsMore() {
		texts, err = r.Engine.read(ctx, secondPages(page))
		if err != nil {
			return failure(err)
		}
		l.show(texts)
	}
	l.decide(&found)
	found.ProxyMarker = notReal.MatchString(found.Collector + "\n" + found.Artist + "\n" + found.Legal)
	return found
}

func secondPages(page evidence.Page) []*image.Gray {
	large := crop(page.Grey, page.Crops.CollectorLine, secondTier)
	return []*image.Gray{large, twoTone(large), stretched(large), bolder(large)}
}

func failure(err error) evidence.Text {
	if errors.Is(err, ErrTimeout) {
		return evidence.Text{Failure: evidence.SkipOCRTimeout}
	}
	return evidence.Text{Failure: evidence.SkipOCRFailed}
}

// reading is one text of the collector line and what the gates say of it
type reading struct {
	text string
	line
	verdict verdict
}

// verdict orders readings, best first
type verdict int

const (
	confirmed    verdict = iota // the artist of that set and number is the one that was read
	accepted                    // nothing speaks against it
	contradicted                // that set and number is another artist's
	invalid                     // no such set
	incomplete                  // no number
)

// ladder collects the readings of a collector line
type ladder struct {
	reader   *Reader
	artist   string
	readings []reading
}

func (l *ladder) show(texts []string) {
	for _, text := range texts {
		text = strings.TrimSpace(text)
		found := reading{text: text, line: parseLine(text, l.reader.Lexicon)}
		found.verdict = l.judge(found.line)
		l.readings = append(l.readings, found)
	}
}

func (l *ladder) judge(found line) verdict {
	owner := ""
	if found.set != "" {
		owner = l.reader.Lexicon.artist(found.set, found.number)
	}
	switch {
	case found.number == "":
		return incomplete
	case !found.known:
		return invalid
	case owner == "" || l.artist == "":
		return accepted
	case owner == l.artist:
		return confirmed
	}
	return contradicted
}

// wantsMore says whether the second tier could help: not when a reading is
// confirmed, or both agree, or there is text but no digit to be found in it.
func (l *ladder) wantsMore() bool {
	a, b := l.readings[0], l.readings[1]
	if a.verdict == confirmed || b.verdict == confirmed {
		return false
	}
	if a.verdict == accepted && b.verdict == accepted && a.line == b.line && a.set != "" {
		return false
	}
	plain := a.text != "" && b.text != "" && !strings.ContainsAny(a.text+b.text, "0123456789")
	return !plain || !l.reader.Shortcircuit.on()
}

// decide takes the best verdict; among those, what most readings say, then the
// one with a set code, then the first.
func (l *ladder) decide(found *evidence.Text) {
	best, votes := -1, 0
	for i, r := range l.readings {
		n := 0
		for _, other := range l.readings {
			if other.line == r.line {
				n++
			}
		}
		if r.set != "" {
			n += len(l.readings)
		}
		if best < 0 || r.verdict < l.readings[best].verdict || r.verdict == l.readings[best].verdict && n > votes {
			best, votes = i, n
		}
	}
	r := l.readings[best]
	found.Collector, found.SetCode, found.Number = r.text, r.set, r.number
	found.Accepted = r.verdict <= accepted
	if r.number == "" {
		found.SetCode = ""
	}
	for _, other := range l.readings { // what was read is kept even when it says nothing
		if found.Collector == "" {
			found.Collector = other.text
		}
	}
}
