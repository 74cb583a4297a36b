// Package cardgen owns the making of seeded card catalogues: images with what a
// card prints, the index and reference that describe them, and the truth about them.
// It does not read catalogues or run any pipeline stage. Spec is the authority: one
// build makes the same bytes of the same Spec, with any number of CPUs. (Another
// processor may round art differently, another Go release compress differently.)
package cardgen

import (
	"context"
	"crypto/md5" // the listing's checksum, not a defence
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup" // chosen for its limit and its first error

	"deadwire/pipeline/catalogue"
	"deadwire/pipeline/evidence"
)

// Spec says what to make. Shares are fractions of Cards, rounded to whole cards;
// together they must leave at least one ordinary card.
type Spec struct {
	Cards     int
	Seed      uint64
	Damaged   float64 // files that cannot be decoded: cut JPEG, or noise
	Twins     float64 // same bytes as another card
	NearTwins float64 // same picture as another card, encoded anew
	Uncoded   float64 // without a readable collector code
	Width     int     // pixels; default 300
	Height    int     // pixels; default 420
}

// Default is a mixed catalogue of n cards.
func Default(n int, seed uint64) Spec {
	return Spec{Cards: n, Seed: seed, Damaged: 0.05, Twins: 0.1, NearTwins: 0.1}
}

func (s Spec) withDefaults() (Spec, error) {
	if s.Width == 0 {
		s.Width = 300
	}
	if s.Height == 0 {
		s.Height = 420
	}
	const least, most = 150, 4096
	if s.Width < least || s.Width > most || s.Height < least || s.Height > most {
		return s, fmt.Errorf("size %d×%d is outside %d to %d", s.Width, s.Height, least, most)
	}
	for _, share := range []float64{s.Damaged, s.Twins, s.NearTwins, s.Uncoded} {
		if !(share >= 0 && share <= 1) { // also refuses NaN
			return s, fmt.Errorf("share %v is outside 0 to 1", share)
		}
	}
	if s.Cards < 0 {
		return s, fmt.Errorf("%d cards", s.Cards)
	}
	return s, nil
}

// Summary counts what was made.
type Summary struct {
	Cards, Printings, Damaged, Twins, NearTwins, Uncoded int
	Bytes                                                int64 // of all images
}

// Write makes a catalogue in dir, which is created if needed: images/*,
// truth.json (identifier to printing), printings.json and, last, index.json. Files
// of the same name are replaced.
func Write(ctx context.Context, dir string, spec Spec) (Summary, error) {
	p, err := newPlan(spec)
	if err != nil {
		return Summary{}, fmt.Errorf("plan catalogue: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, catalogue.ImagesDir), 0o755); err != nil {
		return Summary{}, fmt.Errorf("write catalogue: %w", err)
	}
	cards, bytes, err := writeImages(ctx, dir, p)
	if err != nil {
		return Summary{}, fmt.Errorf("write catalogue: %w", err)
	}
	if err := writeLists(dir, p, cards); err != nil {
		return Summary{}, fmt.Errorf("write catalogue: %w", err)
	}
	sum := p.count
	sum.Cards, sum.Printings, sum.Bytes = len(cards), len(p.printings), bytes
	return sum, nil
}

// writeImages shares cards out by number, so that each renderer keeps its own fonts
func writeImages(ctx context.Context, dir string, p *plan) ([]catalogue.Card, int64, error) {
	cards := make([]catalogue.Card, len(p.cards))
	hands := max(1, min(runtime.GOMAXPROCS(0), len(cards)))
	written := make([]int64, hands)
	group, ctx := errgroup.WithContext(ctx)
	for hand := range hands {
		group.Go(func() error {
			r, err := newRenderer(p.spec)
			if err != nil {
				return err
			}
			for i := hand; i < len(cards); i += hands {
				if err := ctx.Err(); err != nil {
					return err
				}
				card, data, err := p.make(r, i)
				if err != nil {
					return fmt.Errorf("make card %d: %w", i, err)
				}
				if err := os.WriteFile(filepath.Join(dir, card.File), data, 0o644); err != nil {
					return err
				}
				cards[i] = card
				written[hand] += int64(len(data))
			}
			return nil
		})
	}
	err := group.Wait()
	total := int64(0)
	for _, n := range written {
		total += n
	}
	return cards, total, err
}

// make is a pure function of the plan and i
func (p *plan) make(r *renderer, i int) (catalogue.Card, []byte, error) {
	c := p.cards[i]
	printing := p.printings[c.printing]
	data, ext, err := p.encode(r, i)
	if err != nil {
		return catalogue.Card{}, nil, err
	}
	sum, sha := md5.Sum(data), sha256.Sum256(data)
	card := catalogue.Card{
		Identifier: p.identifier(i),
		Name:       printing.Name,
		File:       fmt.Sprintf("%s/%06d.%s", catalogue.ImagesDir, i, ext),
		MD5:        hex.EncodeToString(sum[:]),
		SHA256:     hex.EncodeToString(sha[:]),
		DPI:        p.dpi(),
		Type:       c.kind,
		Damaged:    c.role == damaged,
	}
	if hash, err := evidence.ContentPHash(data); err == nil {
		card.PHash = (*catalogue.PHash)(&hash)
	} else if c.role != damaged {
		return card, nil, err
	}
	return card, data, nil
}

// dpi is that of a trimmed card, 63 mm wide
func (p *plan) dpi() int { return int(float64(p.spec.Width)*25.4/63 + 0.5) }

func (p *plan) identifier(i int) string { return fmt.Sprintf("card-%x-%06d", p.spec.Seed, i) }

func writeLists(dir string, p *plan, cards []catalogue.Card) error {
	truth := make(map[string]string, len(cards))
	for i, c := range p.cards {
		truth[p.identifier(i)] = p.printings[c.printing].UUID
	}
	truths, err := json.MarshalIndent(truth, "", " ") // sorted by key
	if err != nil {
		return err
	}
	printings, err := catalogue.EncodePrintings(p.printings)
	if err != nil {
		return err
	}
	index, err := catalogue.EncodeIndex(cards)
	if err != nil {
		return err
	}
	// the index comes last: where it is, the rest is
	for _, f := range []struct {
		name string
		data []byte
	}{{catalogue.TruthFile, append(truths, '\n')}, {catalogue.PrintingsFile, printings}, {catalogue.IndexFile, index}} {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
