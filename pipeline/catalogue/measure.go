package catalogue

import (
	"crypto/md5" // the listing's checksum, not a defence
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"deadwire/pipeline/evidence"
)

// Measure makes a card of a file's bytes, or says why they are none: its Skip is
// then a class of evidence.DecodeError.
func (s Source) Measure(f File, data []byte) (Card, File) {
	found, err := evidence.Measure(data)
	if failed, ok := errors.AsType[*evidence.DecodeError](err); ok {
		return Card{}, f.skipped(failed.Class, failed.Err)
	}
	sum, sha := md5.Sum(data), sha256.Sum256(data)
	return Card{
		Identifier: s.identifier(f.Name),
		Name:       cardName(f.Name),
		File:       f.Name,
		MD5:        hex.EncodeToString(sum[:]),
		SHA256:     hex.EncodeToString(sha[:]),
		PHash:      (*PHash)(&found.PHash),
		DPI:        found.DPI,
		Type:       typeOf(f.Name),
	}, f
}

// identifier names a file of this source among those of all sources.
func (s Source) identifier(name string) string {
	const longest = 150
	source := sha256.Sum256([]byte(s.String()))
	if len(name) > longest {
		long := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(long[:])
	}
	return fmt.Sprintf("%x:%s", source[:8], name)
}

// cardName is the file's name without its extension, as people name scans.
func cardName(name string) string {
	base := path.Base(name)
	if short := strings.TrimSuffix(base, path.Ext(base)); short != "" {
		return short
	}
	return base
}

// typeOf goes by the folders in which people keep backs and tokens.
func typeOf(name string) Type {
	for folder := range strings.SplitSeq(strings.ToLower(path.Dir(name)), "/") {
		switch folder {
		case "cardbacks", "card backs", "backs":
			return TypeBack
		case "tokens":
			return TypeToken
		}
	}
	return TypeCard
}

var errGrew = errors.New("it grew while it was read")

func readAtMost(from io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, most+1))
	if err == nil && int64(len(data)) > most {
		err = errGrew
	}
	return data, err
}
