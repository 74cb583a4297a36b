package reference

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// objectMax bounds one object, in bytes; the largest that is published has 20 thousand.
const objectMax = 4 << 20

// card is what is read of a card object (scryfall.com/docs/api/cards). Unknown fields
// are let pass: the format grows.
type card struct {
	Object          string            `json:"object"`
	ID              string            `json:"id"`
	OracleID        string            `json:"oracle_id"`
	Name            string            `json:"name"`
	Lang            string            `json:"lang"`
	ReleasedAt      string            `json:"released_at"`
	Layout          string            `json:"layout"`
	Set             string            `json:"set"`
	CollectorNumber string            `json:"collector_number"`
	Digital         bool              `json:"digital"`
	Artist          string            `json:"artist"`
	IllustrationID  string            `json:"illustration_id"`
	BorderColor     string            `json:"border_color"`
	Frame           string            `json:"frame"`
	ImageURIs       map[string]string `json:"image_uris"`
	Faces           []face            `json:"card_faces"`
}

type face struct {
	Name           string            `json:"name"`
	OracleID       string            `json:"oracle_id"`
	Artist         string            `json:"artist"`
	IllustrationID string            `json:"illustration_id"`
	ImageURIs      map[string]string `json:"image_uris"`
}

// FormatError says that the data is not what it should be.
type FormatError struct {
	Offset int64 // bytes, after decompression
	Reason string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("not bulk data of cards, at byte %d: %s", e.Offset, e.Reason)
}

// cards yields the objects of a JSON array, or of JSON lines, one at a time. The
// memory that it takes is that of one object. An error ends the sequence.
func (o *offer) cards() iter.Seq2[card, error] {
	return func(yield func(card, error) bool) {
		bound := &bounded{from: o.plain}
		d := json.NewDecoder(bound)
		array, err := beginsArray(o.plain)
		if err == nil && array {
			_, err = d.Token()
		}
		for err == nil && (!array || d.More()) {
			bound.used = d.InputOffset()
			var c card
			err = d.Decode(&c)
			if errors.Is(err, io.EOF) && !array {
				return
			}
			if err == nil && !yield(c, nil) {
				return
			}
		}
		if err == nil { // the array's end, and the end of the data
			err = ends(d)
		}
		if err != nil {
			yield(card{}, asFormat(d.InputOffset(), err))
		}
	}
}

// beginsArray looks at the first byte that is no space
func beginsArray(r *bufio.Reader) (bool, error) {
	for {
		b, err := r.ReadByte()
		switch {
		case err != nil:
			return false, io.ErrUnexpectedEOF
		case b == '[' || b == '{':
			return b == '[', r.UnreadByte()
		case !strings.ContainsRune(" \t\r\n\uFEFF", rune(b)) && b < 0x80:
			return false, &FormatError{Reason: fmt.Sprintf("begins with %q", b)}
		}
	}
}

func ends(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the end")
	}
	return nil
}

// asFormat tells content that is wrong from a source that broke
func asFormat(offset int64, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax), errors.As(err, &kind), errors.Is(err, errTooLarge):
		return &FormatError{Offset: offset, Reason: err.Error()}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &FormatError{Offset: offset, Reason: "ends too early"}
	}
	return err
}

var errTooLarge = fmt.Errorf("an object is over the limit of %d bytes", objectMax)

// bounded keeps the decoder, which buffers whole values, from buffering without end
type bounded struct {
	from io.Reader
	read int64
	used int64 // by values that were decoded
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.read-b.used > objectMax {
		return 0, errTooLarge
	}
	n, err := b.from.Read(p)
	b.read += int64(n)
	return n, err
}
