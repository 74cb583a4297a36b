// Package evidence owns what is measured from one image's bytes: format, geometry,
// border class, quality, perceptual hashes, and the printed collector code. It
// does not fetch, store or vote, and touches nothing but memory. An extractor's
// version string is the authority on whether a stored measurement is current.
//
// An extractor that finds nothing abstains by name (Skip); one that was not run has
// no entry in Evidence.Versions.
package evidence

import (
	"image"
	"time"
)

// Extractor keys, as they stand in the stored version map.
const (
	FetchHealth     = "fetch_health"
	GeometryBleed   = "geometry_bleed"
	LayoutClass     = "layout_class"
	CropCoordinates = "crop_coordinates"
	ArtboxPHash     = "artbox_phash"
	QualitySignals  = "quality_signals"
	CollectorCode   = "collector_code"
)

// Versions returns the current version of every extractor. A change of a result
// for the same bytes needs a new version here: stored rows become stale by it.
func Versions() map[string]string {
	return map[string]string{
		FetchHealth:     "2",
		GeometryBleed:   "1",
		LayoutClass:     "1",
		CropCoordinates: "1",
		ArtboxPHash:     "1",
		QualitySignals:  "1",
		CollectorCode:   "1",
	}
}

// Reasons for which extractors abstain.
const (
	SkipUndecodable = "undecodable"     // any: the bytes are no image that we read, or only part of one
	SkipAspect      = "aspect-unknown"  // geometry_bleed: not the shape of a card
	SkipNoDPI       = "dpi-unknown"     // geometry_bleed: bleed_diff_mm cannot be computed
	SkipBorderMixed = "border-unclear"  // layout_class
	SkipTooSmall    = "image-too-small" // crop_coordinates, artbox_phash, collector_code
	SkipCodeAbsent  = "code-absent"     // collector_code: nothing that looks like a code
	SkipCodeDamaged = "code-damaged"    // collector_code: its checksum is wrong
)

// Skip says that an extractor ran and has nothing to say, and why.
type Skip struct {
	Extractor string `json:"extractor"`
	Reason    string `json:"reason"`
}

// Input is one fetched image and what is known about it.
type Input struct {
	Data    []byte
	DPI     int           // dots per inch as listed; 0: unknown
	Latency time.Duration // of the fetch
	Limits  Limits        // zero: DefaultLimits
}

// Evidence is what one image says. Nil pointers and empty strings are "not
// known"; a Skip tells why.
type Evidence struct {
	Versions map[string]string `json:"versions"`
	Skips    []Skip            `json:"skips,omitempty"`

	FetchOK         bool   `json:"fetch_ok"`
	FetchErrorClass string `json:"fetch_error_class,omitempty"` // "undecodable", "truncated", "too-large"
	FetchLatencyMS  int64  `json:"fetch_latency_ms"`
	FetchFormat     string `json:"fetch_image_format,omitempty"` // "jpeg", "png"

	Width       int      `json:"width,omitempty"`  // pixels
	Height      int      `json:"height,omitempty"` // pixels
	AspectRatio *float64 `json:"aspect_ratio,omitempty"`
	BleedClass  string   `json:"bleed_class,omitempty"`   // "none", "bleed"
	BleedDiffMM *float64 `json:"bleed_diff_mm,omitempty"` // height over a trimmed card's, millimetres

	Border string `json:"layout_class,omitempty"` // "black", "white", "silver", "borderless"

	Crops *Crops `json:"crops,omitempty"`

	ContentPHash *int64 `json:"content_phash,omitempty"` // of the whole image; 64 bits, stored signed
	ArtboxPHash  *int64 `json:"artbox_phash,omitempty"`

	Truncated    bool        `json:"truncated"`
	BlurVariance *float64    `json:"blur_variance,omitempty"` // variance of the Laplacian of 8-bit luma
	Entropy      *float64    `json:"entropy,omitempty"`       // bits per pixel of luma, 0..8
	ColourMean   *[3]float64 `json:"colour_mean,omitempty"`   // R, G, B, 0..255
	ColourStddev *[3]float64 `json:"colour_stddev,omitempty"`

	SetCode         string `json:"set_code,omitempty"`
	CollectorNumber string `json:"collector_number,omitempty"`
}

// Crops are regions in pixels of the image, where later extractors look.
type Crops struct {
	CollectorLine image.Rectangle `json:"collector_line"`
	Artist        image.Rectangle `json:"artist"`
	Art           image.Rectangle `json:"art"`
	Symbol        image.Rectangle `json:"symbol"`
}

// Extract runs every extractor. The evidence is complete and can be stored even
// when the error is not nil: a *DecodeError says that the bytes are no usable
// image, and then all extractors but fetch_health have abstained.
func Extract(in Input) (Evidence, error) {
	e := &Evidence{Versions: Versions(), FetchLatencyMS: in.Latency.Milliseconds()}
	p, err := decode(in.Data, in.Limits)
	if p != nil {
		e.FetchFormat = p.format
	}
	if err != nil {
		e.FetchErrorClass = err.Class
		e.Truncated = err.Class == ClassTruncated
		for _, name := range []string{GeometryBleed, LayoutClass, CropCoordinates, ArtboxPHash, QualitySignals, CollectorCode} {
			e.skip(name, SkipUndecodable)
		}
		return *e, err
	}
	e.FetchOK = true
	e.geometry(p, in.DPI)
	e.border(p)
	e.crops(p)
	e.hashes(p)
	e.quality(p)
	e.code(p)
	return *e, nil
}

func (e *Evidence) skip(extractor, reason string) {
	e.Skips = append(e.Skips, Skip{Extractor: extractor, Reason: reason})
}

func (e *Evidence) code(p *pixels) {
	code, reason := readCode(p)
	if reason != "" {
		e.skip(CollectorCode, reason)
		return
	}
	e.SetCode, e.CollectorNumber = code.SetCode, code.Number
}

func ptr[T any](v T) *T { return &v }
