package evidence

import (
	"image"
	"math/bits"

	// chosen because its perceptual hash is the classic DCT one, so that hashes can be compared with other tools'
	"github.com/corona10/goimagehash"
)

// hashes fills content and art-box hash. The content hash needs no extractor of
// its own: it is computed to be compared with the listed one.
func (e *Evidence) hashes(p *pixels) {
	e.ContentPHash = perceptual(p.grey())
	if p.tooSmall() {
		e.skip(ArtboxPHash, SkipTooSmall)
		return
	}
	e.ArtboxPHash = perceptual(p.grey().SubImage(artBox.on(p.width, p.height)))
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
