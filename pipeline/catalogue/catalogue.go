// Package catalogue owns the format of a card source: an index of image files and
// a reference of printings, in a folder or behind a base URL. It reads and checks
// them and returns values; it does not store them, fetch images or judge them. The
// source is the authority on names, checksums and hashes; they are never recomputed here.
package catalogue

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Names of the files in a source.
const (
	IndexFile     = "index.json"
	PrintingsFile = "printings.json"
	BulkFile      = "default-cards.json" // the same reference, as Scryfall's bulk data gives it
	TruthFile     = "truth.json"         // identifier to printing; only for tests and the oracle, never read here
	FactsFile     = "facts.json"         // the rest of the truth: roles, and what each card prints; never read here
	ImagesDir     = "images"
)

// Type is what a card image is of.
type Type string

// Types of card.
const (
	TypeCard  Type = "CARD"
	TypeBack  Type = "CARDBACK"
	TypeToken Type = "TOKEN"
)

// PHash is a 64-bit perceptual hash. In JSON it is a decimal string of the signed
// value, since a JSON number cannot hold 64 bits everywhere.
type PHash int64

// MarshalJSON writes a quoted decimal.
func (h PHash) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatInt(int64(h), 10)), nil
}

// UnmarshalJSON reads a quoted decimal.
func (h *PHash) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("perceptual hash must be a string: %w", err)
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("perceptual hash: %w", err)
	}
	*h = PHash(v)
	return nil
}

// Card is one image of the source.
type Card struct {
	Identifier string `json:"identifier"`
	Name       string `json:"name"`
	File       string `json:"file"`   // slash-separated path below the source
	MD5        string `json:"md5"`    // of the file, 32 hexadecimal digits
	SHA256     string `json:"sha256"` // of the file, 64 hexadecimal digits
	PHash      *PHash `json:"phash"`  // nil: not hashed, for instance undecodable
	DPI        int    `json:"dpi"`    // 0: unknown
	Type       Type   `json:"type"`
	Damaged    bool   `json:"damaged,omitempty"` // the source knows that the file cannot be decoded
}

// Printing is one official printing of the reference.
type Printing struct {
	UUID            string `json:"uuid"`
	OracleID        string `json:"oracle_id"` // same for all printings of a card
	Name            string `json:"name"`
	SetCode         string `json:"set_code"`
	CollectorNumber string `json:"collector_number"`
	Artist          string `json:"artist"`
	Border          string `json:"border"` // black, white, silver, borderless
	// What only some references know; empty: unknown.
	Frame          string `json:"frame,omitempty"`
	ReleasedAt     string `json:"released_at,omitempty"` // YYYY-MM-DD
	IllustrationID string `json:"illustration_id,omitempty"`
}

// Catalogue is a whole source, checked.
type Catalogue struct {
	Source    Source
	Cards     []Card
	Printings []Printing
}

// index is the shape of IndexFile, reference that of PrintingsFile.
type (
	index struct {
		Schema string `json:"schema"`
		Cards  []Card `json:"cards"`
	}
	reference struct {
		Schema    string     `json:"schema"`
		Printings []Printing `json:"printings"`
	}
)

// Schemas, the first field of each file.
const (
	IndexSchema     = "conveyor.index/1"
	PrintingsSchema = "conveyor.printings/1"
)

// EncodeIndex returns the content of IndexFile: the same bytes for the same cards.
func EncodeIndex(cards []Card) ([]byte, error) {
	return encode(index{Schema: IndexSchema, Cards: cards})
}

// EncodePrintings returns the content of PrintingsFile.
func EncodePrintings(printings []Printing) ([]byte, error) {
	return encode(reference{Schema: PrintingsSchema, Printings: printings})
}

func encode(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode catalogue: %w", err)
	}
	return append(data, '\n'), nil
}
