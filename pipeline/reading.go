package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"deadwire/pipeline/evidence"
	"deadwire/pipeline/ocr"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// Manifest is the version map that complete evidence from this host has: without an
// OCR engine, nothing can be expected of the extractors that need one.
func Manifest() map[string]string {
	if ocr.Available() {
		return evidence.Versions()
	}
	return evidence.VersionsWithoutText()
}

// readers gives a worker its reader of text, when the first card asks for it: the
// words of the whole reference take a second to load, and small cards need none.
type readers struct {
	engine *ocr.Engine
	reader *ocr.Reader
	load   func(context.Context) (*ocr.Lexicon, error)
	err    error // of the load; ends the job, and not as a card's fault
}

// newReaders returns nil when this host has no engine.
func newReaders(load func(context.Context) (*ocr.Lexicon, error)) *readers {
	engine, err := ocr.Find()
	if err != nil {
		return nil
	}
	return &readers{engine: engine, load: load}
}

// ReadText implements evidence.TextReader.
func (r *readers) ReadText(ctx context.Context, page evidence.Page) evidence.Text {
	if r.reader == nil {
		lexicon, err := r.load(ctx)
		if err != nil {
			r.err = fmt.Errorf("load lexicon: %w", err)
			return evidence.Text{Failure: evidence.SkipOCRFailed}
		}
		r.reader = &ocr.Reader{Engine: r.engine, Lexicon: lexicon}
	}
	return r.reader.ReadText(ctx, page)
}

// lexicon reads the words that cards may print.
func (c *computer) lexicon(ctx context.Context) (*ocr.Lexicon, error) {
	printings, err := session.Tuples[ocr.Printing](ctx, c.session, schema.LexiconPrintings)
	if err != nil {
		return nil, err
	}
	return ocr.NewLexicon(each(printings)), nil
}

func each[T any](values []T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, v := range values {
			if !yield(v) {
				return
			}
		}
	}
}

// extract computes a card's evidence. What is already known of the same bytes, by
// extractors that have not changed since, is taken over.
func (c *computer) extract(ctx context.Context, args jobArgs, image []byte) (evidence.Evidence, error) {
	in := evidence.Input{Data: image, DPI: args.DPI, Latency: args.Latency}
	if c.text != nil { // a nil pointer in an interface would not be nil
		c.text.err = nil
		in.Text = c.text
	}
	if args.Stored {
		known, err := session.Column[json.RawMessage](ctx, c.session, schema.Stored, args.Card, args.PHash)
		if err != nil {
			return evidence.Evidence{}, fmt.Errorf("read stored evidence: %w", err)
		}
		for _, row := range known {
			in.Stored = &evidence.Evidence{}
			if err := json.Unmarshal(row, in.Stored); err != nil {
				return evidence.Evidence{}, fmt.Errorf("read stored evidence: %w", err)
			}
		}
	}
	found, err := evidence.Extract(ctx, in)
	if c.text != nil && c.text.err != nil {
		return found, c.text.err
	}
	return found, err
}
