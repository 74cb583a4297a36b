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

// ReadText reads a page. One call of the engine does for most cards: collector line
// in two variants, and the legal strip, which bears the artist of most cards too. The
// second call has what the first left open: the other variants, and the artist's
// region, which is large and mostly rules text.
func (r *Reader) ReadText(ctx context.Context, page evidence.Page) evidence.Text {
	grey := crop(page.Grey, page.Crops.CollectorLine, firstTier)
	texts, err := r.Engine.read(ctx, []*image.Gray{grey, twoTone(grey), crop(page.Grey, page.Crops.Legal, otherLines)})
	if err != nil {
		return failure(err)
	}
	found := evidence.Text{Legal: strings.TrimSpace(texts[2])}
	found.Year = parseYear(found.Legal)
	setArtist(&found, texts[2], r.Lexicon)
	l := ladder{reader: r, artist: found.ArtistName}
	l.show(texts[:2])
	more := l.pages(page)
	if found.ArtistName == "" {
		more = append(more, crop(page.Grey, page.Crops.Artist, otherLines))
	}
	if len(more) > 0 {
		if texts, err = r.Engine.read(ctx, more); err != nil {
			return failure(err)
		}
		if found.ArtistName == "" {
			last := len(texts) - 1
			setArtist(&found, texts[last], r.Lexicon)
			l.artist, texts = found.ArtistName, texts[:last]
		}
		l.show(texts)
	}
	line := l.decided()
	found.Collector, found.SetCode, found.Number, found.Accepted = line.Collector, line.SetCode, line.Number, line.Accepted
	found.ProxyMarker = notReal.MatchString(found.Collector + "\n" + found.Artist + "\n" + found.Legal)
	return found
}

// setArtist keeps an anchor that was seen even where no name followed
func setArtist(found *evidence.Text, text string, lexicon *Lexicon) {
	name, anchored := parseArtist(text, lexicon)
	found.Artist, found.ArtistName = strings.TrimSpace(text), name
	found.ArtistAnchor = found.ArtistAnchor || anchored
}

// pages are those of the second tier, none when it could not help
func (l *ladder) pages(page evidence.Page) []*image.Gray {
	if !l.wantsMore() {
		return nil
	}
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
	unlisted                    // the set exists, but has no such number
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
		l.readings = append(l.readings, l.judged(text))
	}
}

func (l *ladder) judged(text string) reading {
	r := reading{text: text, line: parseLine(text, l.reader.Lexicon)}
	r.verdict = l.judge(r.line)
	return l.mend(r)
}

func (l *ladder) judge(found line) verdict {
	owner, listed := l.reader.Lexicon.artist(found.set, found.number)
	switch {
	case found.number == "":
		return incomplete
	case !found.known:
		return invalid
	case found.set == "" || l.reader.Lexicon.vague():
		return accepted
	case !listed:
		return unlisted
	case owner == "" || l.artist == "":
		return accepted
	case owner == l.artist:
		return confirmed
	}
	return contradicted
}

// mend tries what an unlisted number is when its padding was misread: a slashed
// zero looks like a nine. Only a slot that the artist confirms is believed; else a
// number beyond the set's printed size is none.
func (l *ladder) mend(r reading) reading {
	for number := r.number; r.verdict == unlisted && len(number) > 1 && strings.Contains("689", number[:1]); {
		number = strings.TrimLeft(number[1:], "0")
		mended := line{set: r.set, number: number, known: true}
		if l.judge(mended) == confirmed {
			return reading{text: r.text, line: mended, verdict: confirmed}
		}
	}
	if r.verdict == unlisted && r.impossible() {
		r.line, r.verdict = line{known: true}, incomplete
	}
	return r
}

// wantsMore says whether the second tier could help: not when a reading is
// confirmed, or both agree, or there is text but no digit to be found in it.
func (l *ladder) wantsMore() bool {
	a, b := l.readings[0], l.readings[1]
	if a.verdict == confirmed || b.verdict == confirmed {
		return false
	}
	if a.verdict == accepted && b.verdict == accepted && a.set == b.set && a.number == b.number && a.set != "" {
		return false
	}
	plain := a.text != "" && b.text != "" && !strings.ContainsAny(a.text+b.text, "0123456789")
	return !plain || !l.reader.Shortcircuit.on()
}

// decided takes the best verdict; among those, what most readings say, then the
// one with a set code, then the first.
func (l *ladder) decided() (found evidence.Text) {
	best, votes := -1, 0
	for i, r := range l.readings { // the artist may have been found since
		l.readings[i] = l.judged(r.text)
	}
	for i, r := range l.readings {
		n := 0
		for _, other := range l.readings {
			if other.set == r.set && other.number == r.number {
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
	found.Accepted = r.verdict <= unlisted
	if r.number == "" {
		found.SetCode = ""
	}
	for _, other := range l.readings { // what was read is kept even when it says nothing
		if found.Collector == "" {
			found.Collector = other.text
		}
	}
	return found
}
