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
	CollectorLine   = "collector_line_ocr"
	ArtistLine      = "artist_ocr"
	LegalLine       = "legal_line"
	ArtboxPHash     = "artbox_phash"
	SymbolRegion    = "symbol_region"
	QualitySignals  = "quality_signals"
	CollectorCode   = "collector_code"
)

// Versions returns the current version of every extractor. A change of a result
// for the same bytes needs a new version here: stored rows become stale by it.
func Versions() map[string]string {
	return map[string]string{
		FetchHealth:     "3",
		GeometryBleed:   "1",
		LayoutClass:     "1",
		CropCoordinates: "2",
		CollectorLine:   "1",
		ArtistLine:      "1",
		LegalLine:       "1",
		ArtboxPHash:     "1",
		SymbolRegion:    "1",
		QualitySignals:  "1",
		CollectorCode:   "1",
	}
}

// VersionsWithoutText is the manifest of a host that cannot read text. It is a
// part of Versions, so that evidence of a better host is complete here too, and
// evidence from here is taken up again where text can be read.
func VersionsWithoutText() map[string]string {
	v := Versions()
	for _, name := range textExtractors() {
		delete(v, name)
	}
	return v
}

func textExtractors() []string { return []string{CollectorLine, ArtistLine, LegalLine} }

// Reasons for which extractors abstain.
const (
	SkipUndecodable    = "undecodable"     // any: the bytes are no image that we read, or only part of one
	SkipAspect         = "aspect-unknown"  // geometry_bleed: not the shape of a card
	SkipNoDPI          = "dpi-unknown"     // geometry_bleed: bleed_diff_mm cannot be computed
	SkipBorderMixed    = "border-unclear"  // layout_class
	SkipTooSmall       = "image-too-small" // crop_coordinates, artbox_phash, symbol_region, collector_code, text
	SkipSymbolFlat     = "symbol-absent"   // symbol_region: one flat colour
	SkipCodeAbsent     = "code-absent"     // collector_code: nothing that looks like a code
	SkipCodeDamaged    = "code-damaged"    // collector_code: its checksum is wrong
	SkipOCRUnavailable = "ocr-unavailable" // text: no engine on this host; the key is left out
	SkipOCRFailed      = "ocr-failed"      // text: the engine broke; the key is left out
	SkipOCRTimeout     = "ocr-timeout"     // text
	SkipNoText         = "no-text"         // text: nothing was read
	SkipUnparsed       = "unparsed"        // text: what was read has no number, no artist, no year
	SkipRejected       = "rejected"        // collector_line_ocr: no reading passed the gates; the best is kept
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
	Text    TextReader    // nil: no text can be read here
	Stored  *Evidence     // what is known of the same bytes; its current parts are taken over
}

// Evidence is what one image says. Nil pointers and empty strings are "not
// known"; a Skip tells why.
type Evidence struct {
	Versions map[string]string `json:"versions"`
	Skips    []Skip            `json:"skips,omitempty"`

	FetchOK         bool   `json:"fetch_ok"`
	FetchErrorClass string `json:"fetch_error_class,omitempty"` // a class of DecodeError
	FetchLatencyMS  int64  `json:"fetch_latency_ms"`
	FetchFormat     string `json:"fetch_image_format,omitempty"` // "jpeg", "png", "gif", "webp", "bmp", "tiff"

	Width       int      `json:"width,omitempty"`  // pixels
	Height      int      `json:"height,omitempty"` // pixels
	AspectRatio *float64 `json:"aspect_ratio,omitempty"`
	BleedClass  string   `json:"bleed_class,omitempty"`   // "none", "bleed"
	BleedDiffMM *float64 `json:"bleed_diff_mm,omitempty"` // height over a trimmed card's, millimetres

	Border string `json:"layout_class,omitempty"` // "black", "white", "silver", "borderless"

	Crops *Crops `json:"crops,omitempty"`

	ContentPHash *int64 `json:"content_phash,omitempty"` // of the whole image; 64 bits, stored signed
	ArtboxPHash  *int64 `json:"artbox_phash,omitempty"`

	SymbolPHash *int64 `json:"symbol_phash,omitempty"`

	Truncated    bool        `json:"truncated"`
	BlurVariance *float64    `json:"blur_variance,omitempty"` // variance of the Laplacian of 8-bit luma
	Entropy      *float64    `json:"entropy,omitempty"`       // bits per pixel of luma, 0..8
	ColourMean   *[3]float64 `json:"colour_mean,omitempty"`   // R, G, B, 0..255
	ColourStddev *[3]float64 `json:"colour_stddev,omitempty"`

	// Of the collector line, or else of the block code.
	SetCode         string `json:"set_code,omitempty"`
	CollectorNumber string `json:"collector_number,omitempty"`
	CollectorText   string `json:"collector_text,omitempty"` // as read
	ArtistText      string `json:"artist_text,omitempty"`
	ArtistName      string `json:"artist_name,omitempty"`
	ArtistAnchor    *bool  `json:"artist_anchor,omitempty"` // "Illus." stands before the name
	LegalText       string `json:"legal_text,omitempty"`
	CopyrightYear   *int   `json:"copyright_year,omitempty"`
	ProxyMarker     *bool  `json:"proxy_marker,omitempty"`
}

// Crops are regions in pixels of the image, where later extractors look.
type Crops struct {
	CollectorLine image.Rectangle `json:"collector_line"`
	Artist        image.Rectangle `json:"artist"`
	Art           image.Rectangle `json:"art"`
	Symbol        image.Rectangle `json:"symbol"`
	Legal         image.Rectangle `json:"legal"`
}
