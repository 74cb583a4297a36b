package cardgen_test

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/cardgen"
	"deadwire/pipeline/catalogue"
	"deadwire/pipeline/evidence"
)

// deck is a generated catalogue, read back as anybody would read it
type deck struct {
	dir       string
	cards     []catalogue.Card
	printings map[string]catalogue.Printing
	truth     map[string]string
	facts     map[string]cardgen.Fact
}

func generate(t *testing.T, spec cardgen.Spec) (deck, cardgen.Summary) {
	t.Helper()
	d := deck{dir: t.TempDir(), printings: map[string]catalogue.Printing{}, facts: map[string]cardgen.Fact{}}
	sum, err := cardgen.Write(t.Context(), d.dir, spec)
	assert.NilError(t, err)
	source, err := catalogue.ParseSource(d.dir)
	assert.NilError(t, err)
	c, err := catalogue.Load(t.Context(), source)
	assert.NilError(t, err)
	d.cards = c.Cards
	for _, p := range c.Printings {
		d.printings[p.UUID] = p
	}
	raw, err := os.ReadFile(filepath.Join(d.dir, catalogue.TruthFile))
	assert.NilError(t, err)
	assert.NilError(t, json.Unmarshal(raw, &d.truth))
	raw, err = os.ReadFile(filepath.Join(d.dir, catalogue.FactsFile))
	assert.NilError(t, err)
	var facts []cardgen.Fact
	assert.NilError(t, json.Unmarshal(raw, &facts))
	for _, f := range facts {
		d.facts[f.Identifier] = f
	}
	return d, sum
}

func (d deck) read(t *testing.T, c catalogue.Card) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, c.File))
	assert.NilError(t, err)
	return data
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	assert.NilError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		sum := md5.Sum(data)
		out[path[len(dir):]] = hex.EncodeToString(sum[:])
		return err
	}))
	return out
}

func TestSameSpecSameBytesOtherSeedOtherBytes(t *testing.T) {
	t.Parallel()
	first, _ := generate(t, cardgen.Default(20, 7))
	again, _ := generate(t, cardgen.Default(20, 7))
	other, _ := generate(t, cardgen.Default(20, 8))
	assert.DeepEqual(t, files(t, first.dir), files(t, again.dir))
	same := 0
	others := files(t, other.dir)
	for name, sum := range files(t, first.dir) {
		if others[name] == sum {
			same++
		}
	}
	assert.Equal(t, same, 0)
}

// tooSmall is what small cards say of their text
var tooSmall = []evidence.Skip{
	{Extractor: evidence.CollectorLine, Reason: evidence.SkipTooSmall},
	{Extractor: evidence.ArtistLine, Reason: evidence.SkipTooSmall},
	{Extractor: evidence.LegalLine, Reason: evidence.SkipTooSmall},
}

// What the evidence extractors read must be what the generator meant.
func TestEveryCardReadsAsItsTruth(t *testing.T) {
	t.Parallel()
	d, sum := generate(t, cardgen.Default(200, 1))
	assert.Equal(t, sum.Cards, 200)
	assert.Equal(t, len(d.truth), 200)
	broken := 0
	for _, c := range d.cards {
		p, ok := d.printings[d.truth[c.Identifier]]
		assert.Assert(t, ok, c.Identifier)
		assert.Equal(t, c.Name, p.Name)
		e, err := evidence.Extract(t.Context(), evidence.Input{Data: d.read(t, c), DPI: c.DPI})
		if c.Damaged {
			broken++
			assert.Assert(t, errors.As(err, new(*evidence.DecodeError)))
			assert.Equal(t, c.PHash != nil, d.facts[c.Identifier].Role == "damaged-listed")
			continue
		}
		assert.NilError(t, err)
		f := d.facts[c.Identifier]
		assert.Equal(t, e.SetCode+" "+e.CollectorNumber, f.SetCode+" "+f.Number, "%s %v", c.File, e.Skips)
		assert.Equal(t, f.Misprint == "" || f.Misprint == cardgen.MisprintArtist, e.SetCode == p.SetCode && e.CollectorNumber == p.CollectorNumber)
		assert.Equal(t, e.Border, p.Border, c.File)
		assert.Equal(t, *e.ContentPHash, int64(*c.PHash))
		assert.Equal(t, e.BleedClass, "none")
		assert.Assert(t, math.Abs(*e.BleedDiffMM) < 1)
		assert.DeepEqual(t, e.Skips, tooSmall)
	}
	assert.Equal(t, broken, 12)
	assert.Equal(t, sum.Damaged+sum.DamagedListed, 12)
	assert.Equal(t, sum.Misprints, 2)
}

func TestTwins(t *testing.T) {
	t.Parallel()
	d, sum := generate(t, cardgen.Spec{Cards: 100, Seed: 3, Twins: 0.2, NearTwins: 0.2})
	bySum, byPrinting := map[string]int{}, map[string][]catalogue.Card{}
	for _, c := range d.cards {
		bySum[c.MD5]++
		byPrinting[d.truth[c.Identifier]] = append(byPrinting[d.truth[c.Identifier]], c)
	}
	// near twins of one card may meet at one quality
	assert.Assert(t, 100-len(bySum) >= sum.Twins && 100-len(bySum) <= sum.Twins+3, "%d different files", len(bySum))
	for _, same := range byPrinting {
		for _, c := range same[1:] {
			assert.Assert(t, evidence.Distance(int64(*c.PHash), int64(*same[0].PHash)) <= 6, "%s %s", c.File, same[0].File)
		}
	}
}

func TestDifferentPrintingsLookDifferent(t *testing.T) {
	t.Parallel()
	d, _ := generate(t, cardgen.Spec{Cards: 100, Seed: 4})
	close := 0
	for i, a := range d.cards {
		for _, b := range d.cards[:i] {
			if d.truth[a.Identifier] != d.truth[b.Identifier] && evidence.Distance(int64(*a.PHash), int64(*b.PHash)) <= 6 {
				close++
			}
		}
	}
	assert.Assert(t, close <= 5, "%d of 4950 pairs are near each other", close)
}

func TestUncodedCardsAbstainByName(t *testing.T) {
	t.Parallel()
	d, sum := generate(t, cardgen.Spec{Cards: 20, Seed: 5, Uncoded: 0.25})
	absent := 0
	for _, c := range d.cards {
		e, err := evidence.Extract(t.Context(), evidence.Input{Data: d.read(t, c), DPI: c.DPI})
		assert.NilError(t, err)
		for _, s := range e.Skips[len(tooSmall):] {
			assert.Equal(t, s.String(), "collector_code: code-absent")
			absent++
		}
	}
	assert.Equal(t, absent, sum.Uncoded)
	assert.Equal(t, absent, 5)
}

func TestOtherSizesAreReadable(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{180, 252}, {630, 880}, {745, 1040}} {
		d, _ := generate(t, cardgen.Spec{Cards: 4, Seed: 6, Width: size[0], Height: size[1], Code: cardgen.CodeAlways})
		for _, c := range d.cards {
			e, err := evidence.Extract(t.Context(), evidence.Input{Data: d.read(t, c), DPI: c.DPI})
			assert.NilError(t, err)
			assert.Equal(t, e.CollectorNumber, d.printings[d.truth[c.Identifier]].CollectorNumber, "%v %v", size, e.Skips)
		}
	}
}

// Large cards print text where small ones print the block code, and the facts say so.
func TestLargeCardsPrintTextInsteadOfTheCode(t *testing.T) {
	t.Parallel()
	d, sum := generate(t, cardgen.Spec{Cards: 12, Seed: 9, OldFrame: 0.3, Misprints: 0.3, NearTwins: 0.1, Width: 500, Height: 700})
	assert.Equal(t, sum.Misprints, 4)
	old := 0
	for _, c := range d.cards {
		f, p := d.facts[c.Identifier], d.printings[d.truth[c.Identifier]]
		e, err := evidence.Extract(t.Context(), evidence.Input{Data: d.read(t, c), DPI: c.DPI})
		assert.NilError(t, err)
		assert.Equal(t, e.CollectorNumber, "", "nothing is left that needs no reading")
		assert.Equal(t, f.Misprint == "", f.Artist == p.Artist && (f.Frame == "1997" || f.SetCode+f.Number == p.SetCode+p.CollectorNumber), "%+v %+v", f, p)
		assert.Equal(t, f.Number == "", f.Frame == "1997")
		assert.Equal(t, f.Of != "", f.Role == "near-twin")
		assert.Equal(t, p.ReleasedAt[:4], fmt.Sprint(f.Year))
		if f.Frame == "1997" {
			old++
		}
	}
	assert.Assert(t, old > 0 && old < 12)
}

// The bulk data says the same as printings.json, and holds what must not win.
func TestBulkDataMatchesThePrintings(t *testing.T) {
	t.Parallel()
	d, _ := generate(t, cardgen.Default(60, 2))
	raw, err := os.ReadFile(filepath.Join(d.dir, catalogue.BulkFile))
	assert.NilError(t, err)
	var cards []struct {
		ID, Name, Lang, Set string
		Number              string `json:"collector_number"`
		Released            string `json:"released_at"`
		Digital             bool
		Faces               []any `json:"card_faces"`
	}
	assert.NilError(t, json.Unmarshal(raw, &cards))
	english, other := 0, map[string]int{}
	for _, c := range cards {
		switch p, ok := d.printings[c.ID]; {
		case ok:
			english++
			assert.Equal(t, c.Name+c.Set+c.Number+c.Released, p.Name+p.SetCode+p.CollectorNumber+p.ReleasedAt)
		case c.Lang != "en":
			other["foreign"]++
		case c.Digital:
			other["digital"]++
		default:
			other["faces"] += len(c.Faces)
		}
	}
	assert.Equal(t, english, len(d.printings))
	assert.DeepEqual(t, other, map[string]int{"foreign": 2, "digital": 1, "faces": 2})
}

func TestSpecsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]cardgen.Spec{
		"negative count":      {Cards: -1},
		"share over one":      {Cards: 5, Damaged: 1.5},
		"share not a number":  {Cards: 5, Twins: math.NaN()},
		"no ordinary card":    {Cards: 4, Damaged: 0.5, Twins: 0.5},
		"smaller than a code": {Cards: 4, Width: 20},
	} {
		_, err := cardgen.Write(t.Context(), filepath.Join(t.TempDir(), "none"), spec)
		assert.ErrorContains(t, err, "plan catalogue", name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	_, err := cardgen.Write(ctx, dir, cardgen.Default(4, 1))
	assert.ErrorIs(t, err, context.Canceled)
	_, err = os.Stat(filepath.Join(dir, catalogue.IndexFile))
	assert.ErrorIs(t, err, os.ErrNotExist, "an unfinished catalogue has no index")
}

func BenchmarkWrite24(b *testing.B) {
	for b.Loop() {
		_, err := cardgen.Write(b.Context(), b.TempDir(), cardgen.Default(24, 1))
		assert.NilError(b, err)
	}
}
