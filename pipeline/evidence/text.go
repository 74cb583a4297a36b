package evidence

import (
	"context"
	"image"
)

// TextReader reads a card's small print. Package ocr implements it. The returned
// text is meaningful even when the context ended.
type TextReader interface {
	ReadText(ctx context.Context, page Page) Text
}

// Page is the luma of a card's image and the places of its small print.
type Page struct {
	Grey  *image.Gray
	Crops Crops
}

// Text is what a reader made of a card's small print.
type Text struct {
	Collector, Artist, Legal string // as read

	SetCode, Number string
	Accepted        bool // SetCode and Number passed the gates
	ArtistName      string
	ArtistAnchor    bool
	Year            int // 0: none
	ProxyMarker     bool

	// Failure is SkipOCRFailed or SkipOCRTimeout when the engine gave nothing.
	Failure string
}

// text runs the three extractors over the small print. They go stale together,
// since one reading serves all of them.
func (e *Evidence) text(ctx context.Context, p *pixels, in Input) error {
	switch {
	case in.stored(textExtractors()...):
		e.takeOverText(in.Stored)
		return nil
	case p.height < TextHeight || p.tooSmall(): // first, so that it is the same on every host
		e.skipText(e.skip, SkipTooSmall)
		return nil
	case in.Text == nil:
		e.skipText(e.drop, SkipOCRUnavailable)
		return nil
	}
	crops := Crops{Legal: legalBox.on(p.width, p.height), CollectorLine: collectorBox.on(p.width, p.height), Artist: artistBox.on(p.width, p.height)}
	found := in.Text.ReadText(ctx, Page{Grey: p.grey(), Crops: crops})
	switch {
	case ctx.Err() != nil:
		e.skipText(e.drop, SkipOCRFailed)
		return context.Cause(ctx)
	case found.Failure == SkipOCRTimeout: // kept: it would take as long again
		e.skipText(e.skip, found.Failure)
	case found.Failure != "":
		e.skipText(e.drop, found.Failure)
	default:
		e.collectorLine(found)
		e.artist(found)
		e.legal(found)
	}
	return nil
}

func (e *Evidence) skipText(how func(extractor, reason string), reason string) {
	for _, name := range textExtractors() {
		how(name, reason)
	}
}

func (e *Evidence) takeOverText(from *Evidence) {
	e.CollectorText, e.SetCode, e.CollectorNumber = from.CollectorText, from.SetCode, from.CollectorNumber
	e.ArtistText, e.ArtistName, e.ArtistAnchor = from.ArtistText, from.ArtistName, from.ArtistAnchor
	e.LegalText, e.CopyrightYear, e.ProxyMarker = from.LegalText, from.CopyrightYear, from.ProxyMarker
	for _, name := range textExtractors() {
		e.takeOver(extractor{name, nil, func(_, _ *Evidence) {}}, from)
	}
}

func (e *Evidence) collectorLine(found Text) {
	e.CollectorText, e.SetCode, e.CollectorNumber = found.Collector, found.SetCode, found.Number
	switch {
	case found.Collector == "":
		e.skip(CollectorLine, SkipNoText)
	case found.Number == "":
		e.skip(CollectorLine, SkipUnparsed)
	case !found.Accepted:
		e.skip(CollectorLine, SkipRejected)
	}
}

func (e *Evidence) artist(found Text) {
	e.ArtistText, e.ArtistName = found.Artist, found.ArtistName
	switch {
	case found.Artist == "":
		e.skip(ArtistLine, SkipNoText)
		return
	case found.ArtistName == "":
		e.skip(ArtistLine, SkipUnparsed)
	}
	e.ArtistAnchor = ptr(found.ArtistAnchor)
}

func (e *Evidence) legal(found Text) {
	e.LegalText = found.Legal
	if found.Legal == "" {
		e.skip(LegalLine, SkipNoText)
		return
	}
	e.ProxyMarker = ptr(found.ProxyMarker)
	if found.Year == 0 {
		e.skip(LegalLine, SkipUnparsed)
		return
	}
	e.CopyrightYear = ptr(found.Year)
}

// collectorCode reads the block code. It fills what the collector line left open
// or could not vouch for, and what was stored before may be its own.
func (e *Evidence) collectorCode(p *pixels, in Input) {
	if in.stored(CollectorCode) && in.stored(textExtractors()...) {
		e.takeOver(extractor{CollectorCode, nil, func(_, _ *Evidence) {}}, in.Stored)
		return
	}
	code, reason := readCode(p)
	switch {
	case reason != "":
		e.skip(CollectorCode, reason)
	case e.CollectorNumber == "" || e.CollectorText == "" || e.rejected():
		e.SetCode, e.CollectorNumber = code.SetCode, code.Number
	}
}

func (e *Evidence) rejected() bool {
	for _, s := range e.Skips {
		if s == (Skip{CollectorLine, SkipRejected}) {
			return true
		}
	}
	return false
}
