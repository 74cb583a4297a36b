package pipeline

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/catalogue"
	"deadwire/pipeline/evidence"
	"deadwire/pipeline/schema/schematest"
	"deadwire/pipeline/session"
)

// picture is an image that no other number gives
func picture(n int) image.Image {
	img := image.NewPaletted(image.Rect(0, 0, 63, 88), color.Palette{color.Gray{Y: 20}, color.Gray{Y: 230}})
	for i := range img.Pix {
		img.Pix[i] = uint8((i / (n + 2)) % 2)
	}
	return img
}

func encoded(t *testing.T, encode func(*bytes.Buffer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	assert.NilError(t, encode(&b))
	return b.Bytes()
}

func asPNG(t *testing.T, n int) []byte {
	t.Helper()
	return encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, picture(n)) })
}

func write(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		at := filepath.Join(dir, name)
		assert.NilError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		assert.NilError(t, os.WriteFile(at, data, 0o600))
	}
}

// hugeHeader is a PNG that announces more pixels than anybody has memory for, and has none.
func hugeHeader(width, height uint32) []byte {
	header := binary.BigEndian.AppendUint32([]byte("IHDR"), width)
	header = append(binary.BigEndian.AppendUint32(header, height), 8, 0, 0, 0, 0)
	data := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), header...)
	return binary.BigEndian.AppendUint32(data, crc32.ChecksumIEEE(header))
}

// tinyWebP is one pixel.
func tinyWebP(t *testing.T) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
	assert.NilError(t, err)
	return data
}

// mess is a folder as nobody would prepare it
func mess(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	whole := asPNG(t, 1)
	write(t, dir, map[string][]byte{
		"Ash Anchor.png":       whole,
		"deep/er/b 100%#?.gif": encoded(t, func(b *bytes.Buffer) error { return gif.Encode(b, picture(2), nil) }),
		"Tokens/c.jpeg":        encoded(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, picture(3), nil) }),
		"Cardbacks/d.GIF":      encoded(t, func(b *bytes.Buffer) error { return gif.Encode(b, picture(4), nil) }),
		"no extension":         asPNG(t, 5),
		"empty.png":            nil,
		"cut.png":              whole[:len(whole)/2],
		"text.png":             []byte("<html>quota exceeded</html>"),
		"drawing.svg":          []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`),
		"one byte":             {'x'},
		"huge header.png":      hugeHeader(100000, 100000),
		"deep colour.png":      encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, image.NewNRGBA64(image.Rect(0, 0, 63, 88))) }),
		"tiny.webp":            tinyWebP(t),
		"cut.jpg":              encoded(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, picture(6), nil) })[:700],
		"locked.png":           asPNG(t, 7),
	})
	assert.NilError(t, os.Chmod(filepath.Join(dir, "locked.png"), 0))
	assert.NilError(t, os.Truncate(filepath.Join(dir, "one byte"), 17<<20)) // grows without blocks
	assert.NilError(t, syscall.Mkfifo(filepath.Join(dir, "pipe.png"), 0o600))
	for link, to := range map[string]string{
		"self": "self", "up": "..", "deep/round": "../deep", "twice": "deep", "nowhere": "gone", "link to a file.png": "Ash Anchor.png",
	} {
		assert.NilError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	assert.NilError(t, os.Remove(filepath.Join(dir, "up")))
	assert.NilError(t, os.Symlink(".", filepath.Join(dir, "up")))
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "bad\xff.png"), whole, 0o600))
	return dir
}

func importing(t *testing.T, database session.Config, location string) Imported {
	t.Helper()
	done, err := Import(t.Context(), database, location)
	assert.NilError(t, err)
	assert.Assert(t, done.Files != nil)
	sum := done.Files.Cards + done.Files.Unchanged
	for _, n := range done.Files.Skipped {
		sum += n
	}
	assert.Equal(t, sum, done.Files.Files, "each file is accounted for: %+v", done.Files)
	return done
}

func TestEveryFileOfAFolderIsACardOrHasAReason(t *testing.T) {
	t.Parallel()
	database, dir := session.Config{URL: schematest.Database(t), Timeout: time.Minute}, mess(t)
	first := importing(t, database, dir)
	skipped := map[string]int{
		catalogue.SkipEmpty: 1, catalogue.SkipNotImage: 2, evidence.ClassTruncated: 2, catalogue.SkipTooLarge: 2, catalogue.SkipNotRegular: 1,
		catalogue.SkipLoop: 3, catalogue.SkipRepeat: 1, catalogue.SkipDangling: 1, catalogue.SkipName: 1,
	}
	cards := 9
	if os.Getuid() != 0 { // who is root can read what nobody may
		skipped[catalogue.SkipUnreadable] = 1
		cards--
	}
	assert.DeepEqual(t, first.Files.Skipped, skipped)
	assert.Equal(t, first.Files.Cards, cards)
	assert.Equal(t, first.CardsChanged, int64(cards))

	again := importing(t, database, dir)
	assert.Equal(t, again.Files.Unchanged, cards)
	assert.Equal(t, again.Files.Cards+int(again.CardsChanged), 0, "nothing is read or written again")
	assert.DeepEqual(t, again.Files.Skipped["zero-byte"], 1)

	assert.NilError(t, within(t.Context(), database, "test", func(s *session.Session) error {
		types, err := session.Column[string](t.Context(), s, `select string_agg(name || '=' || card_type, ' ' order by name collate "C") from card where file like '%/%'`)
		assert.NilError(t, err)
		assert.DeepEqual(t, types, []string{"b 100%#?=CARD c=TOKEN d=CARDBACK"})
		reasons, err := session.Column[int64](t.Context(), s, `select count(*) from catalogue_skip where reason <> ''`)
		assert.DeepEqual(t, reasons, []int64{int64(first.Files.Files - cards)})
		return err
	}))
}

// What is mended becomes a card, and what changes is looked at again.
func TestFolderThatChanges(t *testing.T) {
	t.Parallel()
	database, dir := session.Config{URL: schematest.Database(t), Timeout: time.Minute}, t.TempDir()
	write(t, dir, map[string][]byte{"a.png": asPNG(t, 1), "b.png": asPNG(t, 2)[:50]})
	first := importing(t, database, dir)
	assert.Equal(t, first.Files.Cards, 1)
	write(t, dir, map[string][]byte{"a.png": asPNG(t, 3), "b.png": asPNG(t, 2)})
	past := time.Now().Add(-time.Hour)
	assert.NilError(t, os.Chtimes(filepath.Join(dir, "a.png"), past, past))
	second := importing(t, database, dir)
	assert.Equal(t, second.Files.Cards, 2)
	assert.Equal(t, second.CardsChanged, int64(2))
	assert.NilError(t, within(t.Context(), database, "test", func(s *session.Session) error {
		left, err := session.Value[int64](t.Context(), s, `select count(*) from catalogue_skip`)
		assert.Equal(t, left, int64(0))
		return err
	}))
}

// An import that is ended goes on where it ended.
func TestFolderImportResumes(t *testing.T) {
	t.Parallel()
	database, dir := session.Config{URL: schematest.Database(t), Timeout: time.Minute}, t.TempDir()
	files := map[string][]byte{}
	for i := range 3 * folderChunk {
		files[strings.Repeat("x", i%7)+string(rune('a'+i%26))+"-"+time.Duration(i).String()+".png"] = asPNG(t, i%40)
	}
	write(t, dir, files)
	var served atomic.Int64
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("killed")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".png") && r.Header.Get("If-Modified-Since") == "" && served.Add(1) == 2*folderChunk+9 {
			cancel(stop)
		}
		http.FileServer(http.Dir(dir)).ServeHTTP(w, r)
	}))
	defer server.Close()
	_, err := Import(ctx, database, server.URL)
	assert.ErrorIs(t, err, stop)
	before := served.Load()
	done := importing(t, database, server.URL)
	assert.Equal(t, done.Files.Files, len(files))
	assert.Equal(t, done.Files.Unchanged, 2*folderChunk, "two chunks were stored")
	assert.Equal(t, int(served.Load()-before), len(files)-2*folderChunk)
}

func TestListingsOfAServerAreAFolder(t *testing.T) {
	t.Parallel()
	database, dir := session.Config{URL: schematest.Database(t), Timeout: time.Minute}, t.TempDir()
	write(t, dir, map[string][]byte{
		"cards/a b.png": asPNG(t, 1), "cards/sub/c&d.png": asPNG(t, 2), "cards/readme.txt": []byte("x"), "cards/empty.png": nil,
		"cards/cut.jpg": []byte("\xff\xd8\xff"), "secret.png": asPNG(t, 3),
	})
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	for round, want := range []Files{{Cards: 2}, {Unchanged: 2}} {
		done := importing(t, database, server.URL+"/cards")
		want.Files, want.Skipped = 5, map[string]int{catalogue.SkipNotImage: 1, catalogue.SkipEmpty: 1, evidence.ClassTruncated: 1}
		assert.DeepEqual(t, *done.Files, want)
		assert.Equal(t, done.CardsChanged, int64(2-2*round))
	}
	_, err := Import(t.Context(), database, server.URL+"/nothing")
	assert.ErrorContains(t, err, "404")
	_, err = Import(t.Context(), database, filepath.Join(dir, "nothing"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}
