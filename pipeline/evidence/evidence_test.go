package evidence_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"deadwire/pipeline/evidence"
)

// plain is an image of one colour with a border of another
func plain(width, height int, border, inside color.Color) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	draw.Draw(img, img.Rect, image.NewUniform(border), image.Point{}, draw.Src)
	draw.Draw(img, img.Rect.Inset(width/10), image.NewUniform(inside), image.Point{}, draw.Src)
	return img
}

func grey(v uint8) color.Color { return color.Gray{Y: v} }

func asPNG(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	assert.NilError(t, png.Encode(&b, img))
	return b.Bytes()
}

func asJPEG(t testing.TB, img image.Image, quality int) []byte {
	t.Helper()
	var b bytes.Buffer
	assert.NilError(t, jpeg.Encode(&b, img, &jpeg.Options{Quality: quality}))
	return b.Bytes()
}

func extract(t testing.TB, in evidence.Input) evidence.Evidence {
	t.Helper()
	e, err := evidence.Extract(context.Background(), in)
	assert.NilError(t, err)
	return e
}

func reasons(e evidence.Evidence, extractor string) (out []string) {
	for _, s := range e.Skips {
		if s.Extractor == extractor {
			out = append(out, s.Reason)
		}
	}
	return out
}

func TestBorderClasses(t *testing.T) {
	t.Parallel()
	for want, border := range map[string]color.Color{
		"black": grey(15), "white": grey(250), "silver": grey(165),
		"borderless": color.RGBA{200, 30, 30, 255}, "": grey(80),
	} {
		img := plain(300, 420, border, grey(120))
		for _, data := range [][]byte{asPNG(t, img), asJPEG(t, img, 60)} {
			e := extract(t, evidence.Input{Data: data})
			assert.Equal(t, e.Border, want)
			assert.Equal(t, len(reasons(e, evidence.LayoutClass)) == 1, want == "")
		}
	}
}

func TestGeometry(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		width, height int
		dpi           int
		class         string
		diff          float64 // millimetres; NaN: abstains
		skips         []string
	}{
		{"trimmed", 744, 1039, 300, "none", 0, nil},
		{"with bleed", 819, 1114, 300, "bleed", 6.3, nil},
		{"no dpi", 744, 1039, 0, "none", math.NaN(), []string{evidence.SkipNoDPI}},
		{"landscape", 1039, 744, 300, "", -25, []string{evidence.SkipAspect}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := extract(t, evidence.Input{Data: asPNG(t, plain(tc.width, tc.height, grey(0), grey(90))), DPI: tc.dpi})
			assert.Equal(t, e.BleedClass, tc.class)
			assert.DeepEqual(t, reasons(e, evidence.GeometryBleed), tc.skips)
			assert.Equal(t, e.BleedDiffMM == nil, math.IsNaN(tc.diff))
			if e.BleedDiffMM != nil {
				assert.Assert(t, math.Abs(*e.BleedDiffMM-tc.diff) < 0.1, "%v", *e.BleedDiffMM)
			}
		})
	}
}

func TestQualityTellsSharpFromFlat(t *testing.T) {
	t.Parallel()
	flat := extract(t, evidence.Input{Data: asPNG(t, plain(200, 280, grey(100), grey(100)))})
	assert.Equal(t, *flat.BlurVariance, 0.0)
	assert.Equal(t, *flat.Entropy, 0.0)
	assert.DeepEqual(t, *flat.ColourMean, [3]float64{100, 100, 100})
	assert.DeepEqual(t, *flat.ColourStddev, [3]float64{})

	checks := image.NewGray(image.Rect(0, 0, 200, 280))
	for i := range checks.Pix {
		checks.Pix[i] = uint8(255 * ((i + i/200) % 2))
	}
	sharp := extract(t, evidence.Input{Data: asPNG(t, checks)})
	assert.Assert(t, math.Abs(*sharp.Entropy-1) < 1e-9, "half black, half white is one bit")
	assert.Assert(t, *sharp.BlurVariance > 1e5)
	assert.DeepEqual(t, *sharp.ColourStddev, [3]float64{127.5, 127.5, 127.5})
}

func TestVersionsCoverEveryExtractorAndAreNotShared(t *testing.T) {
	t.Parallel()
	want := []string{
		"artbox_phash", "artist_ocr", "collector_code", "collector_line_ocr", "crop_coordinates", "fetch_health", "geometry_bleed",
		"layout_class", "legal_line", "quality_signals", "symbol_region",
	}
	assert.DeepEqual(t, slices.Sorted(maps.Keys(evidence.Versions())), want)
	v := evidence.Versions()
	v["fetch_health"] = "changed"
	assert.Equal(t, evidence.Versions()["fetch_health"], "3")
	e := extract(t, evidence.Input{Data: asPNG(t, plain(300, 420, grey(0), grey(90))), Latency: 1500 * time.Microsecond})
	assert.DeepEqual(t, e.Versions, evidence.Versions())
	assert.Equal(t, e.FetchLatencyMS, int64(1))
	assert.Equal(t, e.FetchFormat, "png")
	assert.Assert(t, e.FetchOK)
	assert.Equal(t, e.Crops.CollectorLine, image.Rect(18, 378, 105, 405))
}

func TestTinyImageAbstains(t *testing.T) {
	t.Parallel()
	e := extract(t, evidence.Input{Data: asPNG(t, plain(10, 14, grey(0), grey(90)))})
	for _, extractor := range []string{evidence.CropCoordinates, evidence.ArtboxPHash, evidence.CollectorCode} {
		assert.DeepEqual(t, reasons(e, extractor), []string{evidence.SkipTooSmall})
	}
	assert.Assert(t, e.ContentPHash != nil)
	for _, one := range []image.Image{image.NewGray(image.Rect(0, 0, 1, 1)), image.NewGray(image.Rect(0, 0, 300, 1))} {
		_, err := evidence.Extract(t.Context(), evidence.Input{Data: asPNG(t, one)})
		assert.NilError(t, err)
	}
}

func TestUnusableBytes(t *testing.T) {
	t.Parallel()
	card := plain(300, 420, grey(0), grey(90))
	for _, tc := range []struct {
		name   string
		data   []byte
		limits evidence.Limits
		class  string
		format string
	}{
		{"nothing", nil, evidence.Limits{}, evidence.ClassUnsupported, ""},
		{"only the first bytes", []byte("\x89PNG\r\n\x1a\n"), evidence.Limits{}, evidence.ClassTruncated, "png"},
		{"text", []byte("<html>quota exceeded</html>"), evidence.Limits{}, evidence.ClassUnsupported, ""},
		{"cut JPEG", cut(asJPEG(t, card, 80)), evidence.Limits{}, evidence.ClassTruncated, "jpeg"},
		{"cut PNG", cut(asPNG(t, card)), evidence.Limits{}, evidence.ClassTruncated, "png"},
		{"PNG with a wrong checksum", flip(asPNG(t, card)), evidence.Limits{}, evidence.ClassUndecodable, "png"},
		{"over the byte limit", asPNG(t, card), evidence.Limits{Bytes: 100}, evidence.ClassTooLarge, ""},
		{"over the pixel limit", asPNG(t, card), evidence.Limits{Pixels: 300*420 - 1}, evidence.ClassTooLarge, "png"},
		{"bomb", bomb(t), evidence.Limits{}, evidence.ClassTooLarge, "png"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e, err := evidence.Extract(t.Context(), evidence.Input{Data: tc.data, Limits: tc.limits})
			var failed *evidence.DecodeError
			assert.Assert(t, errors.As(err, &failed))
			assert.Equal(t, failed.Class, tc.class)
			assert.Equal(t, e.FetchErrorClass, tc.class)
			assert.Equal(t, e.FetchFormat, tc.format)
			assert.Equal(t, e.Truncated, tc.class == evidence.ClassTruncated)
			assert.DeepEqual(t, e.Versions, evidence.Versions())
			assert.Equal(t, len(e.Skips), len(e.Versions)-1, "all but fetch_health abstain")
			_, err = evidence.ContentPHash(tc.data)
			assert.Equal(t, err == nil, tc.limits != evidence.Limits{})
		})
	}
}

func cut(data []byte) []byte { return data[:len(data)/2] }

func flip(data []byte) []byte {
	at := bytes.Index(data, []byte("IDAT")) + 8
	data[at] ^= 0xff
	return data
}

// bomb claims 60,000 × 60,000 pixels in a few bytes
func bomb(t *testing.T) []byte {
	data := asPNG(t, image.NewGray(image.Rect(0, 0, 1, 1)))
	ihdr := data[12:29] // type and content (PNG specification, section 5)
	binary.BigEndian.PutUint32(ihdr[4:], 60_000)
	binary.BigEndian.PutUint32(ihdr[8:], 60_000)
	binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(ihdr))
	return data
}

func TestCodeSurvivesPrintingAndJPEG(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		code := evidence.Code{
			SetCode: rapid.StringMatching(`[a-z0-9]{1,7}`).Draw(t, "set"),
			Number:  rapid.StringMatching(`[A-Za-z0-9-]{1,10}`).Draw(t, "number"),
		}
		width := rapid.IntRange(200, 700).Draw(t, "width")
		card := plain(width, width*7/5, grey(15), grey(130))
		assert.NilError(t, evidence.DrawCode(card, code))
		var b bytes.Buffer
		assert.NilError(t, jpeg.Encode(&b, card, &jpeg.Options{Quality: rapid.IntRange(50, 95).Draw(t, "quality")}))
		e, err := evidence.Extract(t.Context(), evidence.Input{Data: b.Bytes()})
		assert.NilError(t, err)
		assert.Equal(t, evidence.Code{SetCode: e.SetCode, Number: e.CollectorNumber}, code)
	})
}

func TestDamagedCodeAbstainsInsteadOfLying(t *testing.T) {
	t.Parallel()
	clean := plain(300, 420, grey(15), grey(130))
	assert.NilError(t, evidence.DrawCode(clean, evidence.Code{SetCode: "dwa", Number: "17a"}))
	lies, damaged := 0, 0
	for x := 32; x < 280; x += 4 {
		card := image.NewRGBA(clean.Rect)
		copy(card.Pix, clean.Pix)
		blot := image.Rect(x, 388, x+9, 408)
		draw.Draw(card, blot, image.NewUniform(grey(0)), image.Point{}, draw.Src)
		e := extract(t, evidence.Input{Data: asPNG(t, card)})
		switch {
		case e.SetCode == "":
			damaged++
			assert.DeepEqual(t, reasons(e, evidence.CollectorCode), []string{evidence.SkipCodeDamaged})
		case e.SetCode != "dwa" || e.CollectorNumber != "17a":
			lies++
		}
	}
	assert.Equal(t, lies, 0)
	assert.Assert(t, damaged > 40, "%d blots damaged the code", damaged)
}

func TestCodesThatDoNotFit(t *testing.T) {
	t.Parallel()
	for _, code := range []evidence.Code{
		{SetCode: "", Number: "1"},
		{SetCode: "dwa", Number: ""},
		{SetCode: "eightlet", Number: "1"},
		{SetCode: "dwa", Number: strings.Repeat("1", 15)},
		{SetCode: "dwa", Number: "1★"},
		{SetCode: "dwa", Number: "1\x00"},
	} {
		assert.ErrorIs(t, evidence.DrawCode(plain(300, 420, grey(0), grey(0)), code), evidence.ErrCodeRange, "%q", code)
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	assert.Equal(t, evidence.Distance(0, -1), 64)
	assert.Equal(t, evidence.Distance(5, 4), 1)
}

// Whatever the bytes, Extract neither panics nor takes memory beyond its limits.
func FuzzExtract(f *testing.F) {
	card := plain(100, 140, grey(15), grey(130))
	_ = evidence.DrawCode(card, evidence.Code{SetCode: "dwa", Number: "1"})
	f.Add(asPNG(f, card))
	f.Add(asJPEG(f, card, 50))
	f.Add([]byte("\xff\xd8\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := evidence.Extract(t.Context(), evidence.Input{Data: data, Limits: evidence.Limits{Pixels: 1 << 18}})
		if (err == nil) != e.FetchOK {
			t.Fatalf("error %v, fetch_ok %v", err, e.FetchOK)
		}
		if errors.Is(err, io.EOF) && !e.Truncated {
			t.Fatal("an early end is a truncation")
		}
	})
}

// One operation is one image of 300×420 pixels. Processor time is what counts on
// a machine that has other work.
func BenchmarkExtract(b *testing.B) {
	card := plain(300, 420, grey(15), grey(130))
	assert.NilError(b, evidence.DrawCode(card, evidence.Code{SetCode: "dwa", Number: "17"}))
	for name, data := range map[string][]byte{"png": asPNG(b, card), "jpeg": asJPEG(b, card, 90)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			began := processorTime(b)
			for b.Loop() {
				extract(b, evidence.Input{Data: data, DPI: 121})
			}
			b.ReportMetric(float64(b.N)/(processorTime(b)-began).Seconds(), "images/s-core")
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	assert.NilError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
