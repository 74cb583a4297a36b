package cardgen

import (
	"bytes"
	"image"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
)

// encode returns the file of card i and its extension
func (p *plan) encode(r *renderer, i int) (data []byte, ext string, err error) {
	c := p.cards[i]
	how := p.spec.random(purposeEncoding, uint64(i))
	switch c.role {
	case twin:
		return p.encode(r, c.of)
	case nearTwin:
		img, err := p.picture(r, c.of)
		if err != nil {
			return nil, "", err
		}
		return encodeJPEG(img, 70+how.IntN(10)) // no ordinary card has this quality
	case damaged, damagedListed:
		return p.damage(r, i, how)
	}
	img, err := p.picture(r, i)
	if err != nil {
		return nil, "", err
	}
	if how.IntN(2) == 0 {
		return encodePNG(img)
	}
	return encodeJPEG(img, 85+how.IntN(10))
}

func (p *plan) picture(r *renderer, i int) (*image.RGBA, error) {
	art := p.spec.random(purposeArt, uint64(p.cards[i].printing)) // one illustration per printing
	return r.draw(p.print(i), art)
}

// damage is a JPEG that ends too early, or noise
func (p *plan) damage(r *renderer, i int, how *rand.Rand) ([]byte, string, error) {
	if how.IntN(2) == 0 {
		noise := make([]byte, 2000+how.IntN(4000))
		for at := range noise {
			noise[at] = byte(how.Uint32())
		}
		return noise, "jpg", nil
	}
	img, err := p.picture(r, i)
	if err != nil {
		return nil, "", err
	}
	whole, ext, err := encodeJPEG(img, 85)
	return whole[:len(whole)*2/5], ext, err
}

func encodeJPEG(img image.Image, quality int) ([]byte, string, error) {
	var b bytes.Buffer
	err := jpeg.Encode(&b, img, &jpeg.Options{Quality: quality})
	return b.Bytes(), "jpg", err
}

func encodePNG(img image.Image) ([]byte, string, error) {
	var b bytes.Buffer
	err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, img)
	return b.Bytes(), "png", err
}
