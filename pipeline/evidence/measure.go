package evidence

import (
	"fmt"
	"image"
	"math"
)

// A trimmed card, and one with the usual bleed of an eighth of an inch on every side, in millimetres.
const (
	cardWidth, cardHeight = 63.0, 88.0
	bleedMargin           = 3.175
	mmPerInch             = 25.4
	aspectTolerance       = 0.012 // just over half of the distance between the two shapes
)

func (e *Evidence) geometry(p *pixels, dpi int) {
	e.Width, e.Height = p.width, p.height
	aspect := float64(p.width) / float64(p.height)
	e.AspectRatio = &aspect
	trimmed := math.Abs(aspect - cardWidth/cardHeight)
	bled := math.Abs(aspect - (cardWidth+2*bleedMargin)/(cardHeight+2*bleedMargin))
	switch {
	case min(trimmed, bled) > aspectTolerance:
		e.skip(GeometryBleed, SkipAspect)
	case trimmed <= bled:
		e.BleedClass = "none"
	default:
		e.BleedClass = "bleed"
	}
	if dpi <= 0 {
		e.skip(GeometryBleed, SkipNoDPI)
		return
	}
	e.BleedDiffMM = ptr(float64(p.height)*mmPerInch/float64(dpi) - cardHeight)
}

// Border classes, in evidence and reference alike.
const (
	BorderBlack      = "black"
	BorderWhite      = "white"
	BorderSilver     = "silver"
	BorderBorderless = "borderless"
)

// IsBorder tells whether s is one of the border classes.
func IsBorder(s string) bool {
	return s == BorderBlack || s == BorderWhite || s == BorderSilver || s == BorderBorderless
}

// ringShare is the outer part of the image that is border whatever the frame, by width
const ringShare = 0.02

// border classes the colour of the outermost ring: one flat colour is a border, anything else is art to the edge
func (e *Evidence) border(p *pixels) {
	r := p.ring(max(1, int(float64(p.width)*ringShare)))
	switch {
	case r.spread > 32 || r.colour > 48:
		e.Border = BorderBorderless
	case r.luma < 60:
		e.Border = BorderBlack
	case r.luma > 220:
		e.Border = BorderWhite
	case r.luma > 110 && r.luma < 205:
		e.Border = BorderSilver
	default:
		e.skip(LayoutClass, SkipBorderMixed)
	}
}

type ring struct {
	luma, spread float64 // mean and standard deviation, 0..255
	colour       float64 // mean distance between the largest and the smallest channel
}

func (p *pixels) ring(thick int) ring {
	var n, sum, squares, colour float64
	for y := range p.height {
		step := 1
		if y >= thick && y < p.height-thick {
			step = max(1, p.width-thick) // only the ends of an inner row
		}
		for x0 := 0; x0 < p.width; x0 += step {
			for x := x0; x < min(x0+min(thick, step), p.width); x++ {
				i := y*p.width + x
				v := float64(p.luma[i])
				c := p.rgba.Pix[4*i : 4*i+3 : 4*i+3]
				n, sum, squares = n+1, sum+v, squares+v*v
				colour += float64(max(c[0], c[1], c[2]) - min(c[0], c[1], c[2]))
			}
		}
	}
	mean := sum / n
	return ring{luma: mean, spread: math.Sqrt(max(0, squares/n-mean*mean)), colour: colour / n}
}

// Regions of a card as fractions of its size: left, top, right, bottom.
var (
	collectorBox = box{0.06, 0.90, 0.35, 0.965}
	artistBox    = box{0, 0.82, 1, 1}
	artBox       = box{0.08, 0.12, 0.92, 0.55}
	symbolBox    = box{0.78, 0.55, 1, 0.80}
	legalBox     = box{0, 0.90, 1, 0.965}
)

type box struct{ left, top, right, bottom float64 }

func (b box) on(width, height int) image.Rectangle {
	w, h := float64(width), float64(height)
	return image.Rect(int(b.left*w+0.5), int(b.top*h+0.5), int(b.right*w+0.5), int(b.bottom*h+0.5))
}

// smallest is the least width and height, in pixels, in which the regions mean anything
const smallest = 64

func (p *pixels) tooSmall() bool { return p.width < smallest || p.height < smallest }

func (e *Evidence) crops(p *pixels) {
	if p.tooSmall() {
		e.skip(CropCoordinates, SkipTooSmall)
		return
	}
	e.Crops = &Crops{
		CollectorLine: collectorBox.on(p.width, p.height), Artist: artistBox.on(p.width, p.height),
		Art: artBox.on(p.width, p.height), Symbol: symbolBox.on(p.width, p.height), Legal: legalBox.on(p.width, p.height),
	}
}

func (e *Evidence) quality(p *pixels) {
	e.BlurVariance = ptr(p.laplacianVariance())
	e.Entropy = ptr(p.entropy())
	mean, stddev := p.colours()
	e.ColourMean, e.ColourStddev = &mean, &stddev
}

// laplacianVariance is low for a blurred image: its edges are soft
func (p *pixels) laplacianVariance() float64 {
	var n, sum, squares int64
	for y := 1; y < p.height-1; y++ {
		above, here, below := p.row(y-1), p.row(y), p.row(y+1)
		for x := 1; x < p.width-1; x++ {
			v := int64(above[x]) + int64(below[x]) + int64(here[x-1]) + int64(here[x+1]) - 4*int64(here[x])
			n, sum, squares = n+1, sum+v, squares+v*v
		}
	}
	if n == 0 {
		return 0
	}
	mean := float64(sum) / float64(n)
	return float64(squares)/float64(n) - mean*mean
}

func (p *pixels) entropy() (bits float64) {
	var histogram [256]int
	for _, v := range p.luma {
		histogram[v]++
	}
	for _, count := range histogram {
		if count > 0 {
			share := float64(count) / float64(len(p.luma))
			bits -= share * math.Log2(share)
		}
	}
	return bits
}

func (p *pixels) colours() (mean, stddev [3]float64) {
	var sum, squares [3]uint64
	for i := 0; i < len(p.rgba.Pix); i += 4 {
		for c := range 3 {
			v := uint64(p.rgba.Pix[i+c])
			sum[c] += v
			squares[c] += v * v
		}
	}
	n := float64(p.width * p.height)
	for c := range 3 {
		mean[c] = float64(sum[c]) / n
		stddev[c] = math.Sqrt(max(0, float64(squares[c])/n-mean[c]*mean[c]))
	}
	return mean, stddev
}

// String makes a skip readable in logs: "collector_code: code-absent".
func (s Skip) String() string { return fmt.Sprintf("%s: %s", s.Extractor, s.Reason) }

// TextHeight is the least height of a card's image, in pixels, at which its small
// print can be read: a capital letter of the collector line is 1.5 mm high, and OCR
// needs about nine pixels for it.
const TextHeight = 600
