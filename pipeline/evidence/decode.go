package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"time"

	// chosen because it is the Go project's own, and reads what the standard library leaves out
	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"
)

// Limits bound what an image may cost.
type Limits struct {
	Bytes  int           // of the file
	Pixels int           // width times height, as its header claims
	Time   time.Duration // of decoding; looked at whenever the decoder reads
}

// DefaultLimits fit a card at 1,200 dpi, and stop an image bomb.
func DefaultLimits() Limits { return Limits{Bytes: 32 << 20, Pixels: 32 << 20, Time: 20 * time.Second} }

func (l Limits) orDefault() Limits {
	def := DefaultLimits()
	if l.Bytes <= 0 {
		l.Bytes = def.Bytes
	}
	if l.Pixels <= 0 {
		l.Pixels = def.Pixels
	}
	if l.Time <= 0 {
		l.Time = def.Time
	}
	return l
}

// Classes of DecodeError.
const (
	ClassUndecodable = "undecodable"  // corrupt inside
	ClassUnsupported = "not-an-image" // none of the formats that we read
	ClassTruncated   = "truncated"    // begins well and ends too early
	ClassTooLarge    = "too-large"    // over Limits.Bytes or Limits.Pixels
	ClassTooSlow     = "too-slow"     // over Limits.Time
)

// DecodeError says why bytes could not be turned into pixels.
type DecodeError struct {
	Class string
	Err   error
}

func (e *DecodeError) Error() string { return fmt.Sprintf("decode image: %s: %v", e.Class, e.Err) }

func (e *DecodeError) Unwrap() error { return e.Err }

var (
	errUnknownFormat = errors.New("none of PNG, JPEG, GIF, WebP, BMP, TIFF")
	errDeadline      = errors.New("decoding took too long")
)

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
		{"gif", "GIF8", gif.DecodeConfig, gif.Decode}, // the first frame only
		{"webp", "RIFF????WEBPVP8", webp.DecodeConfig, webp.Decode},
		{"bmp", "BM????\x00\x00\x00\x00", bmp.DecodeConfig, bmp.Decode},
		{"tiff", "II*\x00", tiff.DecodeConfig, tiff.Decode},
		{"tiff", "MM\x00*", tiff.DecodeConfig, tiff.Decode},
	} {
		if hasMagic(data, c.magic) {
			return c, true
		}
	}
	return codec{}, false
}

// hasMagic compares a file's beginning; a question mark stands for any byte
func hasMagic(data []byte, magic string) bool {
	if len(data) < len(magic) {
		return false
	}
	for i := range len(magic) {
		if magic[i] != '?' && magic[i] != data[i] {
			return false
		}
	}
	return true
}

// IsImage tells by its first 16 bytes whether a file claims to be of a format that Extract reads.
func IsImage(head []byte) bool {
	_, ok := codecOf(head)
	return ok
}

// decode returns the pixels; with an error, at most their format and size
func decode(data []byte, limits Limits) (*pixels, *DecodeError) {
	limits = limits.orDefault()
	if len(data) > limits.Bytes {
		return nil, &DecodeError{ClassTooLarge, fmt.Errorf("%d bytes are over the limit of %d", len(data), limits.Bytes)}
	}
	c, ok := codecOf(data)
	if !ok {
		return nil, &DecodeError{ClassUnsupported, errUnknownFormat}
	}
	p := &pixels{format: c.name}
	deadline := time.Now().Add(limits.Time)
	from := &supply{from: bytes.NewReader(data), deadline: deadline}
	cfg, err := contain(from, c.config)
	if err != nil {
		return p, from.classify(err)
	}
	if cfg.Width <= 0 || cfg.Height <= 0 || cfg.Width > limits.Pixels/cfg.Height {
		return p, &DecodeError{ClassTooLarge, fmt.Errorf("%d×%d pixels are over the limit of %d", cfg.Width, cfg.Height, limits.Pixels)}
	}
	from = &supply{from: bytes.NewReader(data), deadline: deadline}
	img, err := contain(from, c.decode)
	if err != nil {
		return p, from.classify(err)
	}
	p.fill(img)
	return p, nil
}

// contain turns a decoder's panic into an error: no file may end the process
func contain[T any](from *supply, decode func(io.Reader) (T, error)) (v T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("decoder panicked: %v", r)
		}
	}()
	return decode(from)
}

// supply notices when a decoder wants more than there is. The decoders' own errors
// do not tell: image/jpeg reports a cut scan as a format error, image/png as zlib's.
// Past the deadline it has no more to give.
type supply struct {
	from     *bytes.Reader
	deadline time.Time
	dry      bool
	late     bool
}

func (s *supply) Read(p []byte) (int, error) {
	if s.overdue() {
		return 0, errDeadline
	}
	n, err := s.from.Read(p)
	s.dry = s.dry || err != nil
	return n, err
}

func (s *supply) ReadByte() (byte, error) {
	b, err := s.from.ReadByte()
	s.dry = s.dry || err != nil
	return b, err
}

// ReadAt is what the TIFF decoder uses
func (s *supply) ReadAt(p []byte, off int64) (int, error) {
	if s.overdue() {
		return 0, errDeadline
	}
	n, err := s.from.ReadAt(p, off)
	s.dry = s.dry || err != nil && n < len(p)
	return n, err
}

func (s *supply) overdue() bool {
	s.late = s.late || time.Now().After(s.deadline)
	return s.late
}

func (s *supply) classify(err error) *DecodeError {
	switch {
	case s.late:
		return &DecodeError{ClassTooSlow, err}
	case s.dry:
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
