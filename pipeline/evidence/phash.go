package evidence

import (
	"image"
	"math/bits"

	// chosen because its perceptual hash is the classic DCT one, so that hashes can be compared with other tools'
	"github.com/corona10/goimagehash"
)

// artbox hashes the illustration
func (e *Evidence) artbox(p *pixels) {
	if p.tooSmall() {
		e.skip(ArtboxPHash, SkipTooSmall)
		return
	}
	e.ArtboxPHash = perceptual(p.grey().SubImage(artBox.on(p.width, p.height)))
}

// symbol hashes the place of the set symbol, unless nothing is there
func (e *Evidence) symbol(p *pixels) {
	const least = 4 // difference of luma that noise does not reach
	area := symbolBox.on(p.width, p.height)
	darkest, lightest := uint8(255), uint8(0)
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for _, v := range p.row(y)[area.Min.X:area.Max.X] {
			darkest, lightest = min(darkest, v), max(lightest, v)
		}
	}
	switch {
	case p.tooSmall():
		e.skip(SymbolRegion, SkipTooSmall)
	case int(lightest)-int(darkest) < least:
		e.skip(SymbolRegion, SkipSymbolFlat)
	default:
		e.SymbolPHash = perceptual(p.grey().SubImage(area))
	}
}

// ContentPHash decodes data within DefaultLimits and returns its 64-bit
// perceptual hash, signed as PostgreSQL's bigint stores it. Errors are *DecodeError.
func ContentPHash(data []byte) (int64, error) {
	p, err := decode(data, Limits{})
	if err != nil {
		return 0, err
	}
	return *perceptual(p.grey()), nil
}

// Measured is what a listing says of an image.
type Measured struct {
	PHash int64
	DPI   int // estimated from the shape of a card; 0 when it has none
}

// Measure decodes data within DefaultLimits. Errors are *DecodeError.
func Measure(data []byte) (Measured, error) {
	p, err := decode(data, Limits{})
	if err != nil {
		return Measured{}, err
	}
	var e Evidence
	e.geometry(p, 0)
	height := map[string]float64{"none": cardHeight, "bleed": cardHeight + 2*bleedMargin}[e.BleedClass]
	m := Measured{PHash: *perceptual(p.grey())}
	if height > 0 {
		m.DPI = int(float64(p.height)*mmPerInch/height + 0.5)
	}
	return m, nil
}

// Distance is the number of bits in which two perceptual hashes differ.
func Distance(a, b int64) int { return bits.OnesCount64(uint64(a ^ b)) }

// perceptual hashes luma only: the hash looks at nothing else, and one channel
// costs a fraction of four to shrink
func perceptual(img image.Image) *int64 {
	hash, err := goimagehash.PerceptionHash(img)
	if err != nil { // only for a nil image
		return nil
	}
	return ptr(int64(hash.GetHash()))
}
