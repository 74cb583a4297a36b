package ocr

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/image/tiff"
	"gotest.tools/v3/assert"

	"deadwire/pipeline/evidence"
)

// pretend is an engine that is a shell script
func pretend(t *testing.T, script string) *Engine {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engine")
	assert.NilError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700))
	return &Engine{path: path, timeout: 10 * time.Second}
}

func page() evidence.Page {
	return evidence.Page{Grey: image.NewGray(image.Rect(0, 0, 500, 700)), Crops: evidence.Crops{
		CollectorLine: image.Rect(30, 630, 175, 675), Artist: image.Rect(0, 574, 500, 700), Legal: image.Rect(0, 630, 500, 675),
	}}
}

func TestEngineThatMisbehavesIsContained(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ script, failure string }{
		"exits with an error":      {"cat >/dev/null; echo no language >&2; exit 1", evidence.SkipOCRFailed},
		"dies":                     {"kill -9 $$", evidence.SkipOCRFailed},
		"answers too few pages":    {"cat >/dev/null; printf 'one'", evidence.SkipOCRFailed},
		"reads none of its input":  {`printf '021/281 R\nDWA EN\f021/281 R\nDWA EN\fIllus. Ada Brandt'`, ""},
		"hangs, and so do its own": {"sleep 100 & sleep 100", evidence.SkipOCRTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := pretend(t, tc.script)
			if tc.failure == evidence.SkipOCRTimeout {
				e.timeout = 200 * time.Millisecond
			}
			began := time.Now()
			// the short-circuit keeps a good answer to one call
			found := (&Reader{Engine: e, Shortcircuit: On, Lexicon: lexicon()}).ReadText(t.Context(), page())
			assert.Equal(t, found.Failure, tc.failure)
			assert.Assert(t, time.Since(began) < 50*time.Second)
		})
	}
}

func TestCancelledReadingSaysWhy(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("batch is over")
	cancel(stop)
	_, err := pretend(t, "sleep 100").read(ctx, []*image.Gray{page().Grey})
	assert.ErrorIs(t, err, stop)
}

func TestEnvironmentHoldsNoSecrets(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://me:secret@host/db")
	t.Setenv("PGPASSWORD", "secret")
	texts, err := pretend(t, "cat >/dev/null; env").read(t.Context(), []*image.Gray{page().Grey})
	assert.NilError(t, err)
	assert.Assert(t, !bytes.Contains([]byte(texts[0]), []byte("secret")), texts[0])
	assert.Assert(t, bytes.Contains([]byte(texts[0]), []byte("OMP_THREAD_LIMIT=1\n")), texts[0])
}

// The first page of what is written is what any reader of TIFF sees.
func TestPagesAreTIFF(t *testing.T) {
	t.Parallel()
	grey := image.NewGray(image.Rect(0, 0, 7, 3)) // odd, so that the directory must be aligned
	for i := range grey.Pix {
		grey.Pix[i] = uint8(10 * i)
	}
	got, err := tiff.Decode(bytes.NewReader(encodePages([]*image.Gray{grey, grey})))
	assert.NilError(t, err)
	assert.DeepEqual(t, got.(*image.Gray).Pix, grey.Pix)
}

func TestPicturesAreDarkOnLight(t *testing.T) {
	t.Parallel()
	grey := image.NewGray(image.Rect(0, 0, 20, 20)) // black, with a light bar
	for x := range 20 {
		grey.SetGray(x, 9, color.Gray{Y: 200})
	}
	c := crop(grey, image.Rect(0, 5, 20, 15), 3)
	assert.Equal(t, c.Rect, image.Rect(0, 0, 60, 30))
	assert.Assert(t, c.GrayAt(30, 2).Y > 250 && c.GrayAt(30, 13).Y < 90)
	for _, p := range []*image.Gray{twoTone(c), bolder(c), stretched(c)} {
		assert.Assert(t, p.GrayAt(30, 2).Y > 200 && p.GrayAt(30, 13).Y < 100)
	}
	flat := twoTone(image.NewGray(image.Rect(0, 0, 0, 0)))
	assert.Equal(t, len(flat.Pix), 0)
}
