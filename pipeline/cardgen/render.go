package cardgen

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math"
	"math/rand/v2"
	"strings"

	// chosen because the Go fonts come with their licence inside the module: no font files on the machine are needed
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"deadwire/pipeline/evidence"
)

// renderer draws cards of one size. Its font faces have state: one renderer per goroutine.
type renderer struct {
	width, height int
	coding        Coding

	title, small, fine font.Face
}

func newRenderer(spec Spec) (*renderer, error) {
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return nil, fmt.Errorf("parse font: %w", err)
	}
	r := &renderer{width: spec.Width, height: spec.Height, coding: spec.Code}
	for _, f := range []struct {
		face  *font.Face
		share float64 // of the card's height
	}{{&r.title, 0.04}, {&r.small, 0.022}, {&r.fine, 0.0205}} {
		*f.face, err = opentype.NewFace(parsed, &opentype.FaceOptions{Size: f.share * float64(spec.Height), DPI: 72})
		if err != nil {
			return nil, fmt.Errorf("make font face: %w", err)
		}
	}
	return r, nil
}

// at turns fractions of the card into pixels
func (r *renderer) at(left, top, right, bottom float64) image.Rectangle {
	w, h := float64(r.width), float64(r.height)
	return image.Rect(int(left*w), int(top*h), int(right*w), int(bottom*h))
}

// coded says whether the block code is printed: text that nobody could read is no use
func (r *renderer) coded() bool {
	return r.coding == CodeAlways || r.coding == CodeAuto && r.height < evidence.TextHeight
}

// draw is one printing as it would be printed. art decides the illustration.
func (r *renderer) draw(p print, art *rand.Rand) (*image.RGBA, error) {
	card := image.NewRGBA(image.Rect(0, 0, r.width, r.height))
	edge, ink := edgeColours(p.Border)
	fill(card, card.Rect, edge)
	if p.Border == evidence.BorderBorderless {
		paint(card, card.Rect, art)
	} else {
		fill(card, r.at(0.05, 0.035, 0.95, 0.895), tint(art))
	}
	paint(card, r.at(0.08, 0.12, 0.92, 0.55), art)
	paper := color.RGBA{236, 228, 208, 255}
	for _, plate := range [][2]float64{{0.045, 0.11}, {0.56, 0.61}, {0.62, 0.885}} {
		fill(card, r.at(0.07, plate[0], 0.93, plate[1]), paper)
	}
	dark := color.RGBA{20, 18, 16, 255}
	r.text(card, r.title, dark, 0.09, 0.092, p.Name)
	r.text(card, r.small, dark, 0.09, 0.595, "Artifact")
	r.symbol(card, p.SetCode)
	for line := range 4 {
		r.text(card, r.small, dark, 0.09, 0.66+0.055*float64(line), rules[art.IntN(len(rules))])
	}
	fill(card, r.at(0.05, 0.9, 0.95, 0.97), edge)
	if !r.coded() {
		r.lines(card, ink, p)
		return card, nil
	}
	r.text(card, r.small, ink, 0.06, 0.922, p.CollectorNumber+" "+p.SetCode)
	r.text(card, r.small, ink, 0.5, 0.922, "Illus. "+p.Artist)
	if !p.line {
		return card, nil
	}
	return card, evidence.DrawCode(card, evidence.Code{SetCode: p.SetCode, Number: p.CollectorNumber})
}

// lines are the two lines at the foot of a card that is large enough to be read
func (r *renderer) lines(card *image.RGBA, ink color.Color, p print) {
	const upper, lower, left, right = 0.922, 0.951, 0.062, 0.37
	legal := fmt.Sprintf("\u2122 & \u00a9 %d Deadwire Press", p.year)
	if p.Frame == frameOld {
		r.centre(card, ink, upper, "Illus. "+p.Artist)
		r.centre(card, ink, lower, legal)
		return
	}
	if p.line {
		r.text(card, r.fine, ink, left, upper, p.numberLine())
		r.text(card, r.fine, ink, left, lower, strings.ToUpper(p.SetCode)+" \u2022 EN")
	}
	r.text(card, r.fine, ink, right, upper, p.Artist)
	r.text(card, r.fine, ink, 0.5, lower, legal)
}

func (r *renderer) centre(card *image.RGBA, c color.Color, baseline float64, s string) {
	width := float64(font.MeasureString(r.fine, s).Round()) / float64(r.width)
	r.text(card, r.fine, c, (1-width)/2, baseline, s)
}

var rules = []string{
	"Draw a line, then hold it open.", "When this leaves, its heirs do not.", "One answer for each question.",
	"Wait for a fact, never for luck.", "Nothing lost, and nothing twice.", "Whoever hangs up last pays.",
}

func edgeColours(border string) (edge, ink color.RGBA) {
	white, black := color.RGBA{248, 248, 248, 255}, color.RGBA{14, 14, 14, 255}
	switch border {
	case evidence.BorderWhite:
		return white, black
	case evidence.BorderSilver:
		return color.RGBA{164, 166, 168, 255}, black
	}
	return black, white
}

func tint(art *rand.Rand) color.RGBA {
	return color.RGBA{uint8(60 + art.IntN(150)), uint8(60 + art.IntN(150)), uint8(60 + art.IntN(150)), 255}
}

func fill(card *image.RGBA, area image.Rectangle, c color.Color) {
	draw.Draw(card, area, image.NewUniform(c), image.Point{}, draw.Src)
}

func (r *renderer) text(card *image.RGBA, face font.Face, c color.Color, left, baseline float64, s string) {
	d := font.Drawer{Dst: card, Src: image.NewUniform(c), Face: face}
	d.Dot = fixed.P(int(left*float64(r.width)), int(baseline*float64(r.height)))
	d.DrawString(s)
}

// symbol is a set's own pattern of 3×3 cells
func (r *renderer) symbol(card *image.RGBA, set string) {
	area := r.at(0.86, 0.565, 0.92, 0.605)
	pattern := uint32(2166136261) // FNV-1a over the set code
	for _, b := range []byte(set) {
		pattern = (pattern ^ uint32(b)) * 16777619
	}
	for i := range 9 {
		if pattern>>i&1 == 1 {
			x, y := i%3, i/3
			cell := image.Rect(x*area.Dx()/3, y*area.Dy()/3, (x+1)*area.Dx()/3, (y+1)*area.Dy()/3)
			fill(card, cell.Add(area.Min), color.RGBA{120, 30, 30, 255})
		}
	}
}

// paint fills area with waves that are products of a row and a column, so that
// each pixel costs a few multiplications. The lowest frequencies dominate: they
// are what a perceptual hash sees, and so pictures differ in it.
func paint(card *image.RGBA, area image.Rectangle, art *rand.Rand) {
	const waves = 5
	var rows, columns [waves][]float64
	var colour [waves][3]float64
	for w := range waves {
		rows[w] = wave(area.Dy(), art)
		columns[w] = wave(area.Dx(), art)
		for c := range 3 {
			colour[w][c] = 90 * (2*art.Float64() - 1)
		}
	}
	for y := range area.Dy() {
		at := card.PixOffset(area.Min.X, area.Min.Y+y)
		for x := range area.Dx() {
			sum := [3]float64{128, 128, 128}
			for w := range waves {
				v := rows[w][y] * columns[w][x]
				for c := range 3 {
					sum[c] += v * colour[w][c]
				}
			}
			for c := range 3 {
				card.Pix[at+c] = uint8(min(255, max(0, sum[c])))
			}
			card.Pix[at+3] = 255
			at += 4
		}
	}
}

// wave is one cosine of random phase and half to three periods over n pixels
func wave(n int, art *rand.Rand) []float64 {
	periods, phase := 0.5+2.5*art.Float64(), 2*math.Pi*art.Float64()
	out := make([]float64, n)
	for i := range out {
		out[i] = math.Cos(2*math.Pi*periods*float64(i)/float64(n) + phase)
	}
	return out
}
