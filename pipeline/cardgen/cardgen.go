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
	Cards   int
	Seed    uint64
	Damaged float64 // files that cannot be decoded: cut JPEG, or noise
	// DamagedListed are damaged too, but their hash was listed when they were whole.
	DamagedListed float64
	Twins         float64 // same bytes as another card
	NearTwins     float64 // same picture as another card, encoded anew
	Uncoded       float64 // without a readable collector line or code
	Misprints     float64 // print a set code, number or artist that is not theirs
	OldFrame      float64 // of printings: no collector number, "Illus." before the artist
	Width         int     // pixels; default 300
	Height        int     // pixels; default 420; from evidence.TextHeight on, text is readable
	Code          Coding
}

// Default is a mixed catalogue of n cards.
func Default(n int, seed uint64) Spec {
	return Spec{Cards: n, Seed: seed, Damaged: 0.05, DamagedListed: 0.01, Twins: 0.1, NearTwins: 0.1, Misprints: 0.01, OldFrame: 0.05}
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
	for _, share := range []float64{s.Damaged, s.DamagedListed, s.Twins, s.NearTwins, s.Uncoded, s.Misprints, s.OldFrame} {
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
	Cards, Printings, Damaged, DamagedListed, Twins, NearTwins, Uncoded, Misprints int
	Bytes                                                                          int64 // of all images
}

// Write makes a catalogue in dir, which is created if needed: images/*, the truth
// about them (truth.json, facts.json), the reference (printings.json, and as bulk
// data default-cards.json) and, last, index.json. Files of the same name are replaced.
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
		Damaged:    c.role == damaged || c.role == damagedListed,
	}
	card.PHash, err = p.listedHash(r, i, data)
	return card, data, err
}

// listedHash is the hash of the file, or of what the file was before it was damaged
func (p *plan) listedHash(r *renderer, i int, data []byte) (*catalogue.PHash, error) {
	role := p.cards[i].role
	if role == damaged {
		return nil, nil
	}
	if role == damagedListed {
		whole, err := p.picture(r, i)
		if err != nil {
			return nil, err
		}
		if data, _, err = encodeJPEG(whole, 85); err != nil {
			return nil, err
		}
	}
	hash, err := evidence.ContentPHash(data)
	return (*catalogue.PHash)(&hash), err
}

// dpi is that of a trimmed card, 63 mm wide
func (p *plan) dpi() int { return int(float64(p.spec.Width)*25.4/63 + 0.5) }

func (p *plan) identifier(i int) string { return fmt.Sprintf("card-%x-%06d", p.spec.Seed, i) }
