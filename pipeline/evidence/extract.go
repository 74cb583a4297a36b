package evidence

import (
	"context"
	"slices"
)

// extractor is one entry of the manifest: how it measures, and which fields it owns.
type extractor struct {
	name  string
	run   func(*Evidence, *pixels, Input)
	carry func(to, from *Evidence)
}

// extractors are all that need pixels and no text. The block code comes last: it
// fills only what the collector line left open.
func extractors() []extractor {
	return []extractor{
		{GeometryBleed, func(e *Evidence, p *pixels, in Input) { e.geometry(p, in.DPI) }, func(to, from *Evidence) {
			to.Width, to.Height, to.AspectRatio = from.Width, from.Height, from.AspectRatio
			to.BleedClass, to.BleedDiffMM = from.BleedClass, from.BleedDiffMM
		}},
		{LayoutClass, func(e *Evidence, p *pixels, _ Input) { e.border(p) }, func(to, from *Evidence) { to.Border = from.Border }},
		{CropCoordinates, func(e *Evidence, p *pixels, _ Input) { e.crops(p) }, func(to, from *Evidence) { to.Crops = from.Crops }},
		{ArtboxPHash, func(e *Evidence, p *pixels, _ Input) { e.artbox(p) }, func(to, from *Evidence) { to.ArtboxPHash = from.ArtboxPHash }},
		{SymbolRegion, func(e *Evidence, p *pixels, _ Input) { e.symbol(p) }, func(to, from *Evidence) { to.SymbolPHash = from.SymbolPHash }},
		{QualitySignals, func(e *Evidence, p *pixels, _ Input) { e.quality(p) }, func(to, from *Evidence) {
			to.Truncated, to.BlurVariance, to.Entropy = from.Truncated, from.BlurVariance, from.Entropy
			to.ColourMean, to.ColourStddev = from.ColourMean, from.ColourStddev
		}},
	}
}

// Extract runs every extractor whose result is not already in Input.Stored. The
// evidence is complete and can be stored even when the error is a *DecodeError: it
// says that the bytes are no usable image, and then all extractors but fetch_health
// have abstained. Any other error is that of the context, which ended the reading of text.
func Extract(ctx context.Context, in Input) (Evidence, error) {
	e := &Evidence{Versions: Versions(), FetchLatencyMS: in.Latency.Milliseconds()}
	p, failed := decode(in.Data, in.Limits)
	if p != nil {
		e.FetchFormat = p.format
	}
	if failed != nil {
		e.undecodable(failed)
		return *e, failed
	}
	e.FetchOK = true
	e.ContentPHash = perceptual(p.grey())
	for _, x := range extractors() {
		if in.stored(x.name) {
			e.takeOver(x, in.Stored)
			continue
		}
		x.run(e, p, in)
	}
	err := e.text(ctx, p, in)
	e.collectorCode(p, in)
	return *e, err
}

func (e *Evidence) undecodable(failed *DecodeError) {
	e.FetchErrorClass = failed.Class
	e.Truncated = failed.Class == ClassTruncated
	for _, x := range extractors() {
		e.skip(x.name, SkipUndecodable)
	}
	for _, name := range append(textExtractors(), CollectorCode) {
		e.skip(name, SkipUndecodable)
	}
}

// stored says whether an extractor's stored result is of the current version, and
// of an image that could be decoded
func (in Input) stored(extractors ...string) bool {
	if in.Stored == nil || !in.Stored.FetchOK {
		return false
	}
	current := Versions()
	return !slices.ContainsFunc(extractors, func(name string) bool { return in.Stored.Versions[name] != current[name] })
}

func (e *Evidence) takeOver(x extractor, from *Evidence) {
	x.carry(e, from)
	for _, skip := range from.Skips {
		if skip.Extractor == x.name {
			e.Skips = append(e.Skips, skip)
		}
	}
}

func (e *Evidence) skip(extractor, reason string) {
	e.Skips = append(e.Skips, Skip{Extractor: extractor, Reason: reason})
}

// drop says that an extractor did not run: the reason is kept, the key is not, so
// that the card is taken up again.
func (e *Evidence) drop(extractor, reason string) {
	delete(e.Versions, extractor)
	e.skip(extractor, reason)
}

func ptr[T any](v T) *T { return &v }
