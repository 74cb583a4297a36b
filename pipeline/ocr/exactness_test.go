package ocr_test

import (
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/cardgen"
	"deadwire/pipeline/catalogue"
	"deadwire/pipeline/evidence"
	"deadwire/pipeline/ocr"
)

// deck is a generated catalogue of cards that are large enough to be read
type deck struct {
	dir     string
	cards   []catalogue.Card
	facts   map[string]cardgen.Fact
	lexicon *ocr.Lexicon
}

func generate(t testing.TB, spec cardgen.Spec) deck {
	t.Helper()
	spec.Width, spec.Height = 745, 1040
	d := deck{dir: t.TempDir(), facts: map[string]cardgen.Fact{}}
	_, err := cardgen.Write(t.Context(), d.dir, spec)
	assert.NilError(t, err)
	source, err := catalogue.ParseSource(d.dir)
	assert.NilError(t, err)
	c, err := catalogue.Load(t.Context(), source)
	assert.NilError(t, err)
	d.cards, d.lexicon = c.Cards, ocr.NewLexicon(printed(c.Printings))
	raw, err := os.ReadFile(filepath.Join(d.dir, catalogue.FactsFile))
	assert.NilError(t, err)
	var facts []cardgen.Fact
	assert.NilError(t, json.Unmarshal(raw, &facts))
	for _, f := range facts {
		d.facts[f.Identifier] = f
	}
	return d
}

func printed(printings []catalogue.Printing) iter.Seq[ocr.Printing] {
	return func(yield func(ocr.Printing) bool) {
		for _, p := range printings {
			if !yield(ocr.Printing{SetCode: p.SetCode, Number: p.CollectorNumber, Artist: p.Artist}) {
				return
			}
		}
	}
}

func (d deck) read(t testing.TB, c catalogue.Card) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, c.File))
	assert.NilError(t, err)
	return data
}

func engine(t testing.TB) *ocr.Engine {
	t.Helper()
	e, err := ocr.Find()
	if err != nil {
		t.Skip(err)
	}
	return e
}

// What is read must be what is printed: wrong readings cost votes, and missing
// ones cost cards.
func TestPrintedLinesAreReadExactly(t *testing.T) {
	t.Parallel()
	cards := 60
	if os.Getenv("OCR_CARDS") != "" {
		cards = 200
	}
	reader := &ocr.Reader{Engine: engine(t)}
	d := generate(t, cardgen.Spec{Cards: cards, Seed: 11, Misprints: 0.05, OldFrame: 0.1, Uncoded: 0.03})
	reader.Lexicon = d.lexicon
	var line, artist, year, wrong int
	began := time.Now()
	for _, c := range d.cards {
		e, err := evidence.Extract(t.Context(), evidence.Input{Data: d.read(t, c), DPI: c.DPI, Text: reader})
		assert.NilError(t, err)
		f := d.facts[c.Identifier]
		switch {
		case e.SetCode == f.SetCode && e.CollectorNumber == f.Number:
			line++
		default:
			t.Logf("%s %s %s: read %q %q, printed %q %q; text %q %v", c.File, f.Role, f.Misprint, e.SetCode, e.CollectorNumber, f.SetCode, f.Number, e.CollectorText, e.Skips)
			if e.CollectorNumber != "" && !slices.Contains(e.Skips, evidence.Skip{Extractor: evidence.CollectorLine, Reason: evidence.SkipRejected}) {
				wrong++
			}
		}
		if e.ArtistName == f.Artist || f.Misprint == cardgen.MisprintArtist && e.ArtistName == "" {
			artist++
		} else {
			t.Logf("%s: artist %q, printed %q: %q", c.File, e.ArtistName, f.Artist, e.ArtistText)
		}
		if e.CopyrightYear != nil && *e.CopyrightYear == f.Year {
			year++
		} else {
			t.Logf("%s: year printed %d: %q", c.File, f.Year, e.LegalText)
		}
	}
	t.Logf("%d cards: line %d, artist %d, year %d, wrong and accepted %d; %.1f images/s", cards, line, artist, year, wrong, float64(cards)/time.Since(began).Seconds())
	assert.Equal(t, wrong, 0)
	assert.Assert(t, line*100 >= cards*97)
	assert.Assert(t, artist*100 >= cards*97)
	assert.Assert(t, year*100 >= cards*95)
}
