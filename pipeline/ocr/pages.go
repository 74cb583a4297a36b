package ocr

import (
	"encoding/binary"
	"image"
)

// Tags and types of TIFF 6.0, section 8 (baseline, greyscale).
const (
	tagWidth         = 256
	tagHeight        = 257
	tagBits          = 258
	tagCompression   = 259
	tagPhotometric   = 262
	tagStripOffsets  = 273
	tagSamples       = 277
	tagRowsPerStrip  = 278
	tagStripBytes    = 279
	tagXResolution   = 282
	tagYResolution   = 283
	typeShort        = 3
	typeLong         = 4
	typeRational     = 5
	blackIsZero      = 1
	uncompressed     = 1
	dotsPerInch      = 300 // what the engine expects small print to be scanned at
	entrySize        = 12
	headerSize       = 8
	resolutionOffset = headerSize // one rational, shared by all pages
)

// encodePages writes greyscale pages as one uncompressed TIFF: the only form in
// which the engine takes several images on its standard input.
func encodePages(pages []*image.Gray) []byte {
	size := headerSize + 8
	for _, p := range pages {
		size += p.Rect.Dx()*p.Rect.Dy() + 11*entrySize + 8
	}
	out := append(make([]byte, 0, size), 'I', 'I', 42, 0)
	next := len(out) // where the offset of the next directory goes
	out = binary.LittleEndian.AppendUint32(out, 0)
	out = binary.LittleEndian.AppendUint32(out, dotsPerInch)
	out = binary.LittleEndian.AppendUint32(out, 1)
	for _, p := range pages {
		strip := len(out)
		for y := range p.Rect.Dy() {
			out = append(out, p.Pix[y*p.Stride:][:p.Rect.Dx()]...)
		}
		if len(out)%2 == 1 { // directories begin on a word
			out = append(out, 0)
		}
		binary.LittleEndian.PutUint32(out[next:], uint32(len(out)))
		out = appendDirectory(out, p.Rect, strip)
		next = len(out) - 4
	}
	return out
}

func appendDirectory(out []byte, r image.Rectangle, strip int) []byte {
	entries := []struct {
		tag, kind uint16
		value     int
	}{
		{tagWidth, typeLong, r.Dx()},
		{tagHeight, typeLong, r.Dy()},
		{tagBits, typeShort, 8},
		{tagCompression, typeShort, uncompressed},
		{tagPhotometric, typeShort, blackIsZero},
		{tagStripOffsets, typeLong, strip},
		{tagSamples, typeShort, 1},
		{tagRowsPerStrip, typeLong, r.Dy()},
		{tagStripBytes, typeLong, r.Dx() * r.Dy()},
		{tagXResolution, typeRational, resolutionOffset},
		{tagYResolution, typeRational, resolutionOffset},
	}
	out = binary.LittleEndian.AppendUint16(out, uint16(len(entries)))
	for _, e := range entries {
		out = binary.LittleEndian.AppendUint16(out, e.tag)
		out = binary.LittleEndian.AppendUint16(out, e.kind)
		out = binary.LittleEndian.AppendUint32(out, 1)
		out = binary.LittleEndian.AppendUint32(out, uint32(e.value)) // a short lies in the first two bytes
	}
	return binary.LittleEndian.AppendUint32(out, 0)
}
