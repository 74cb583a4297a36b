package evidence

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"strings"
)

// Code is what the block code in the collector line says. It stands in for
// reading the line's text, which needs OCR.
type Code struct {
	SetCode string // 1 to 7 characters
	Number  string // the rest of at most 17 characters together
}

// The code is a grid of dark and light cells at a fixed place, so that it needs
// no finder: 48 columns by 3 rows. The first two columns are alternating
// cells, which prove that there is a code and give the threshold. The others hold,
// row by row, 3 bits of set-code length, 17 characters of 6 bits, a 16-bit
// checksum, and 17 unused light cells.
var codeBox = box{0.06, 0.93, 0.94, 0.968}

const (
	codeColumns  = 48
	codeRows     = 3
	syncColumns  = 2
	codeChars    = 17
	charBits     = 6
	lengthBits   = 3
	sumBits      = 16
	codeAlphabet = "\x000123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-" // 64, the first is padding
)

// ErrCodeRange says that a set code or number does not fit the block code.
var ErrCodeRange = errors.New("collector code does not fit")

// DrawCode prints the code over the collector line of a card image. The error wraps ErrCodeRange.
func DrawCode(card draw.Image, code Code) error {
	bits, err := code.bits()
	if err != nil {
		return err
	}
	size := card.Bounds()
	area := codeBox.on(size.Dx(), size.Dy()).Add(size.Min)
	draw.Draw(card, area, image.NewUniform(color.White), image.Point{}, draw.Src)
	for row := range codeRows {
		for column := range codeColumns {
			if cellDark(bits, row, column) {
				draw.Draw(card, cellArea(area, row, column), image.NewUniform(color.Black), image.Point{}, draw.Src)
			}
		}
	}
	return nil
}

func cellArea(area image.Rectangle, row, column int) image.Rectangle {
	w, h := area.Dx(), area.Dy()
	return image.Rect(column*w/codeColumns, row*h/codeRows, (column+1)*w/codeColumns, (row+1)*h/codeRows).Add(area.Min)
}

func cellDark(bits []bool, row, column int) bool {
	if column < syncColumns {
		return (row+column)%2 == 0
	}
	at := row*(codeColumns-syncColumns) + column - syncColumns
	return at < len(bits) && bits[at]
}

func (c Code) bits() ([]bool, error) {
	text := c.SetCode + c.Number
	if len(c.SetCode) < 1 || len(c.SetCode) >= 1<<lengthBits || len(text) > codeChars || c.Number == "" {
		return nil, fmt.Errorf("%w: %q %q", ErrCodeRange, c.SetCode, c.Number)
	}
	var out []bool
	out = appendBits(out, len(c.SetCode), lengthBits)
	for i := range codeChars {
		value := 0
		if i < len(text) {
			if value = strings.IndexByte(codeAlphabet, text[i]); value < 1 {
				return nil, fmt.Errorf("%w: character %q", ErrCodeRange, text[i])
			}
		}
		out = appendBits(out, value, charBits)
	}
	return appendBits(out, int(checksum(out)), sumBits), nil
}

func appendBits(to []bool, value, n int) []bool {
	for i := n - 1; i >= 0; i-- {
		to = append(to, value>>i&1 == 1)
	}
	return to
}

func takeBits(from []bool, n int) (value int, rest []bool) {
	for _, bit := range from[:n] {
		value <<= 1
		if bit {
			value |= 1
		}
	}
	return value, from[n:]
}

// checksum is CRC-16/CCITT-FALSE over bits (polynomial 0x1021, start 0xffff)
func checksum(bits []bool) uint16 {
	crc := uint16(0xffff)
	for _, bit := range bits {
		top := crc&0x8000 != 0
		crc <<= 1
		if top != bit {
			crc ^= 0x1021
		}
	}
	return crc
}

// readCode returns the code, or the reason why there is none to read
func readCode(p *pixels) (Code, string) {
	area := codeBox.on(p.width, p.height)
	if p.tooSmall() || area.Dx() < 2*codeColumns || area.Dy() < 2*codeRows {
		return Code{}, SkipTooSmall
	}
	threshold, ok := p.codeThreshold(area)
	if !ok {
		return Code{}, SkipCodeAbsent
	}
	bits := make([]bool, 0, codeRows*(codeColumns-syncColumns))
	for row := range codeRows {
		for column := syncColumns; column < codeColumns; column++ {
			bits = append(bits, p.cell(cellArea(area, row, column)) < threshold)
		}
	}
	code, ok := parseCode(bits)
	if !ok {
		return Code{}, SkipCodeDamaged
	}
	return code, ""
}

// codeThreshold looks at the alternating cells: all dark ones must be clearly darker than all light ones
func (p *pixels) codeThreshold(area image.Rectangle) (threshold float64, ok bool) {
	darkest, lightest := 0.0, 255.0
	for row := range codeRows {
		for column := range syncColumns {
			v := p.cell(cellArea(area, row, column))
			if (row+column)%2 == 0 {
				darkest = max(darkest, v)
			} else {
				lightest = min(lightest, v)
			}
		}
	}
	const contrast = 60
	return (darkest + lightest) / 2, lightest-darkest > contrast
}

// cell is the mean luma of a cell's inner part, where its neighbours bleed in least
func (p *pixels) cell(area image.Rectangle) float64 {
	if inner := area.Inset(1); !inner.Empty() {
		area = inner
	}
	sum := 0
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for _, v := range p.row(y)[area.Min.X:area.Max.X] {
			sum += int(v)
		}
	}
	return float64(sum) / float64(area.Dx()*area.Dy())
}

func parseCode(bits []bool) (Code, bool) {
	const payload = lengthBits + codeChars*charBits
	sum, _ := takeBits(bits[payload:], sumBits)
	if uint16(sum) != checksum(bits[:payload]) {
		return Code{}, false
	}
	length, rest := takeBits(bits[:payload], lengthBits)
	var text []byte
	for range codeChars {
		var value int
		if value, rest = takeBits(rest, charBits); value > 0 {
			text = append(text, codeAlphabet[value])
		}
	}
	if length < 1 || length >= len(text) {
		return Code{}, false
	}
	return Code{SetCode: string(text[:length]), Number: string(text[length:])}, true
}
