package evidence_test

import (
	"bytes"
	"errors"
	"image/gif"
	"io"
	"math"
	"testing"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
	"gotest.tools/v3/assert"

	"deadwire/pipeline/evidence"
)

// webP is a lossless image of one pixel (RFC 9649, section 3.8)
const webP = "RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00"

func TestEveryFormatGivesTheSamePicture(t *testing.T) {
	t.Parallel()
	card := plain(300, 420, grey(15), grey(130))
	want := extract(t, evidence.Input{Data: asPNG(t, card)})
	for format, encode := range map[string]func(io.Writer) error{
		"gif":  func(w io.Writer) error { return gif.Encode(w, card, nil) },
		"bmp":  func(w io.Writer) error { return bmp.Encode(w, card) },
		"tiff": func(w io.Writer) error { return tiff.Encode(w, card, &tiff.Options{Compression: tiff.Deflate}) },
	} {
		var b bytes.Buffer
		assert.NilError(t, encode(&b))
		assert.Assert(t, evidence.IsImage(b.Bytes()[:16]))
		e := extract(t, evidence.Input{Data: b.Bytes()})
		assert.Equal(t, e.FetchFormat, format)
		assert.Equal(t, e.Border, want.Border)
		assert.Assert(t, math.Abs(e.ColourMean[0]-want.ColourMean[0]) < 5, format) // a GIF has few colours
		for _, end := range []int{20, b.Len() / 3, b.Len() * 2 / 3} {              // cut anywhere: an error, never a panic
			_, err := evidence.Extract(t.Context(), evidence.Input{Data: b.Bytes()[:end]})
			assert.Assert(t, errors.As(err, new(*evidence.DecodeError)), "%s cut at %d", format, end)
		}
	}
	e := extract(t, evidence.Input{Data: []byte(webP)})
	assert.Equal(t, e.FetchFormat, "webp")
	assert.Assert(t, !evidence.IsImage([]byte("<svg xmlns=\"http:")))
}

func TestDecodingIsBoundedInTime(t *testing.T) {
	t.Parallel()
	e, err := evidence.Extract(t.Context(), evidence.Input{Data: asPNG(t, plain(300, 420, grey(15), grey(130))), Limits: evidence.Limits{Time: 1}})
	var failed *evidence.DecodeError
	assert.Assert(t, errors.As(err, &failed))
	assert.Equal(t, failed.Class, evidence.ClassTooSlow)
	assert.Equal(t, e.FetchErrorClass, evidence.ClassTooSlow)
}
