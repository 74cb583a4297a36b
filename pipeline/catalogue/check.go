package catalogue

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"time"

	"deadwire/pipeline/evidence"
)

// InvalidError says what is wrong with a source, and where.
type InvalidError struct {
	File   string // IndexFile or PrintingsFile
	Entry  int    // place in the file's list, from 0; -1 for the file as a whole
	Field  string // JSON name; empty for the entry as a whole
	Reason string
}

func (e *InvalidError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Entry >= 0 {
		fmt.Fprintf(&b, ": entry %d", e.Entry)
	}
	if e.Field != "" {
		b.WriteString(": " + e.Field)
	}
	return b.String() + ": " + e.Reason
}

// decodeStrictly refuses unknown fields and anything after the value
func decodeStrictly(file string, data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return &InvalidError{File: file, Entry: -1, Reason: err.Error()}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return &InvalidError{File: file, Entry: -1, Reason: "data after the end"}
	}
	return nil
}

func parseIndex(data []byte) ([]Card, error) {
	var in index
	if err := decodeStrictly(IndexFile, data, &in); err != nil {
		return nil, err
	}
	if in.Schema != IndexSchema {
		return nil, &InvalidError{IndexFile, -1, "schema", fmt.Sprintf("%q, want %q", in.Schema, IndexSchema)}
	}
	seen := unique{}
	for i, c := range in.Cards {
		field, reason := c.problem()
		if reason == "" && !seen.add(c.Identifier) {
			field, reason = "identifier", fmt.Sprintf("%q occurs twice", c.Identifier)
		}
		if reason != "" {
			return nil, &InvalidError{IndexFile, i, field, reason}
		}
	}
	return in.Cards, nil
}

func parsePrintings(data []byte) ([]Printing, error) {
	var in reference
	if err := decodeStrictly(PrintingsFile, data, &in); err != nil {
		return nil, err
	}
	if in.Schema != PrintingsSchema {
		return nil, &InvalidError{PrintingsFile, -1, "schema", fmt.Sprintf("%q, want %q", in.Schema, PrintingsSchema)}
	}
	uuids, slots := unique{}, unique{}
	for i, p := range in.Printings {
		field, reason := p.problem()
		switch {
		case reason != "":
		case !uuids.add(p.UUID):
			field, reason = "uuid", fmt.Sprintf("%q occurs twice", p.UUID)
		case !slots.add(p.SetCode + "\x00" + p.CollectorNumber):
			field, reason = "collector_number", fmt.Sprintf("%s %s occurs twice", p.SetCode, p.CollectorNumber)
		}
		if reason != "" {
			return nil, &InvalidError{PrintingsFile, i, field, reason}
		}
	}
	return in.Printings, nil
}

type unique map[string]struct{}

func (u unique) add(key string) bool {
	before := len(u)
	u[key] = struct{}{}
	return len(u) > before
}

func (c Card) problem() (field, reason string) {
	switch {
	case c.Identifier == "" || len(c.Identifier) > 200:
		return "identifier", "must have 1 to 200 bytes"
	case c.Name == "":
		return "name", "is empty"
	case !localPath(c.File):
		return "file", fmt.Sprintf("%q is not a path below the source", c.File)
	case !isHex(c.MD5, 16):
		return "md5", "is not 32 lower-case hexadecimal digits"
	case !isHex(c.SHA256, 32):
		return "sha256", "is not 64 lower-case hexadecimal digits"
	case c.DPI < 0:
		return "dpi", "is negative"
	case c.Type != TypeCard && c.Type != TypeBack && c.Type != TypeToken:
		return "type", fmt.Sprintf("%q, want %s, %s or %s", c.Type, TypeCard, TypeBack, TypeToken)
	}
	return "", ""
}

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func (p Printing) problem() (field, reason string) {
	switch {
	case !uuidForm.MatchString(p.UUID):
		return "uuid", fmt.Sprintf("%q is not a UUID", p.UUID)
	case !uuidForm.MatchString(p.OracleID):
		return "oracle_id", fmt.Sprintf("%q is not a UUID", p.OracleID)
	case p.Name == "":
		return "name", "is empty"
	case p.SetCode == "":
		return "set_code", "is empty"
	case p.CollectorNumber == "" || len(p.CollectorNumber) > 16:
		return "collector_number", "must have 1 to 16 bytes"
	case !evidence.IsBorder(p.Border):
		return "border", fmt.Sprintf("%q is no border class", p.Border)
	case p.IllustrationID != "" && !uuidForm.MatchString(p.IllustrationID):
		return "illustration_id", fmt.Sprintf("%q is not a UUID", p.IllustrationID)
	case p.ReleasedAt != "" && !isDate(p.ReleasedAt):
		return "released_at", fmt.Sprintf("%q is not a date", p.ReleasedAt)
	}
	return "", ""
}

// localPath accepts what stays below the source and looks the same in a URL
func localPath(p string) bool {
	return p != "" && p == path.Clean(p) && !path.IsAbs(p) && p != ".." && !strings.HasPrefix(p, "../") &&
		!strings.ContainsAny(p, "\\?#%:")
}

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

func isHex(s string, bytes int) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == bytes && s == strings.ToLower(s)
}
