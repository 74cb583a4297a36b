package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/jpeg"
	"image/png"
	"io"
)

// Limits bound what an image may cost before it is decoded.
type Limits struct {
	Bytes  int // of the file
	Pixels int // width times height, as its header claims
}

// DefaultLimits fit a card at 1,200 dpi, and stop an image bomb.
func DefaultLimits() Limits { return Limits{Bytes: 32 << 20, Pixels: 32 << 20} }

func (l Limits) orDefault() Limits {
	def := DefaultLimits()
	if l.Bytes <= 0 {
		l.Bytes = def.Bytes
	}
	if l.Pixels <= 0 {
		l.Pixels = def.Pixels
	}
	return l
}

// Classes of DecodeError.
const (
	ClassUndecodable = "undecodable" // not PNG or JPEG, or corrupt inside
	ClassTruncated   = "truncated"   // begins well and ends too early
	ClassTooLarge    = "too-large"   // over Limits
)

// DecodeError says why bytes could not be turned into pixels.
type DecodeError struct {
	Class string
	Err   error
}

func (e *DecodeError) Error() string { return fmt.Sprintf("decode image: %s: %v", e.Class, e.Err) }

func (e *DecodeError) Unwrap() error { return e.Err }

var errUnknownFormat = errors.New("neither PNG nor JPEG")

// pixels is a decoded image in the two forms that the extractors read
type pixels struct {
	format        string
	width, height int
	rgba          *image.RGBA
	luma          []uint8 // row by row, without padding
}

// codecs is explicit, not image.RegisterFormat, so that what is accepted does not depend on what else is linked
type codec struct {
	name, magic string
	config      func(io.Reader) (image.Config, error)
	decode      func(io.Reader) (image.Image, error)
}

func codecOf(data []byte) (codec, bool) {
	for _, c := range []codec{
		{"png", "\x89PNG\r\n\x1a\n", png.DecodeConfig, png.Decode},
		{"jpeg", "\xff\xd8\xff", jpeg.DecodeConfig, jpeg.Decode},
	} {
		if bytes.HasPrefix(data, []byte(c.magic)) {
			return c, true
		}
	}
	return codec{}, false
}

// decode returns the pixels; with an error, at most their format and size
func decode(data []byte, limits Limits) (*pixels, *DecodeError) {
	limits = limits.orDefault()
	if len(data) > limits.Bytes {
		return nil, &DecodeError{ClassTooLarge, fmt.Errorf("%d bytes are over the limit of %d", len(data), limits.Bytes)}
	}
	c, ok := codecOf(data)
	if !ok {
		return nil, &DecodeError{ClassUndecodable, errUnknownFormat}
	}
	p := &pixels{format: c.name}
	from := &supply{Reader: bytes.NewReader(data)}
	cfg, err := c.config(from)
	if err != nil {
		return p, from.classify(err)
	}
	if cfg.Width <= 0 || cfg.Height <= 0 || cfg.Width > limits.Pixels/cfg.Height {
		return p, &DecodeError{ClassTooLarge, fmt.Errorf("%d×%d pixels are over the limit of %d", cfg.Width, cfg.Height, limits.Pixels)}
	}
	from = &supply{Reader: bytes.NewReader(data)}
	img, err := c.decode(from)
	if err != nil {
		return p, from.classify(err)
	}
	p.fill(img)
	return p, nil
}

// supply notices when a decoder wants more than there is. The decoders' own errors
// do not tell: image/jpeg reports a cut scan as a format error, image/png as zlib's.
type supply struct {
	*bytes.Reader
	dry bool
}

func (s *supply) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.dry = s.dry || err != nil
	return n, err
}

func (s *supply) ReadByte() (byte, error) {
	b, err := s.Reader.ReadByte()
	s.dry = s.dry || err != nil
	return b, err
}

func (s *supply) classify(err error) *DecodeError {
	if s.dry {
		return &DecodeError{ClassTruncated, err}
	}
	return &DecodeError{ClassUndecodable, err}
}

func (p *pixels) fill(img image.Image) {
	size := img.Bounds()
	p.width, p.height = size.Dx(), size.Dy()
	p.rgba = image.NewRGBA(image.Rect(0, 0, p.width, p.height))
	// draw has a fast path for what the JPEG and PNG decoders return
	draw.Draw(p.rgba, p.rgba.Rect, img, size.Min, draw.Src)
	p.luma = make([]uint8, p.width*p.height)
	if ycc, ok := img.(*image.YCbCr); ok {
		for y := range p.height { // JPEG's Y is luma already
			copy(p.row(y), ycc.Y[ycc.YOffset(size.Min.X, size.Min.Y+y):])
		}
		return
	}
	pix := p.rgba.Pix[:4*len(p.luma)]
	for i := range p.luma {
		// ITU-R BT.601 weights, the ones of JPEG's Y (JFIF 1.02), in 16 bits
		r, g, b := uint32(pix[4*i]), uint32(pix[4*i+1]), uint32(pix[4*i+2])
		p.luma[i] = uint8((19595*r + 38470*g + 7471*b + 1<<15) >> 16)
	}
}

// grey is the luma as an image; it shares memory with p
func (p *pixels) grey() *image.Gray {
	return &image.Gray{Pix: p.luma, Stride: p.width, Rect: image.Rect(0, 0, p.width, p.height)}
}

// row is one line of luma
func (p *pixels) row(y int) []uint8 { return p.luma[y*p.width : (y+1)*p.width] }
