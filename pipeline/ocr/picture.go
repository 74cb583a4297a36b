package ocr

import (
	"image"

	// chosen because it is the Go project's own, and interpolates better than nearest neighbour
	"golang.org/x/image/draw"
)

// crop copies a region, magnified, as dark text on light ground.
func crop(grey *image.Gray, area image.Rectangle, times int) *image.Gray {
	area = area.Intersect(grey.Rect)
	out := image.NewGray(image.Rect(0, 0, area.Dx()*times, area.Dy()*times))
	draw.CatmullRom.Scale(out, out.Rect, grey, area, draw.Src, nil)
	if mean(out) < 128 {
		for i, v := range out.Pix {
			out.Pix[i] = 255 - v
		}
	}
	return out
}

func mean(p *image.Gray) int {
	sum := 0
	for _, v := range p.Pix {
		sum += int(v)
	}
	return sum / max(1, len(p.Pix))
}

// twoTone is black and white, at the threshold that parts the two best (N. Otsu,
// "A threshold selection method from gray-level histograms", 1979)
func twoTone(p *image.Gray) *image.Gray {
	return mapped(p, threshold(p), func(v, at int) int {
		if v > at {
			return 255
		}
		return 0
	})
}

// stretched uses the whole range, and steepens what lies around the threshold
func stretched(p *image.Gray) *image.Gray {
	return mapped(p, threshold(p), func(v, at int) int { return 128 + 2*(v-at) })
}

// bolder binarises above the threshold, so that thin strokes close
func bolder(p *image.Gray) *image.Gray {
	return mapped(p, threshold(p), func(v, at int) int {
		if v > at+(255-at)/3 {
			return 255
		}
		return 0
	})
}

func mapped(p *image.Gray, at int, value func(v, at int) int) *image.Gray {
	out := image.NewGray(p.Rect)
	var table [256]uint8
	for v := range table {
		table[v] = uint8(min(255, max(0, value(v, at))))
	}
	for i, v := range p.Pix {
		out.Pix[i] = table[v]
	}
	return out
}

func threshold(p *image.Gray) (best int) {
	var histogram [256]int
	total := 0
	for _, v := range p.Pix {
		histogram[v]++
		total += int(v)
	}
	below, sum, most := 0, 0, -1.0
	for v, n := range histogram {
		below, sum = below+n, sum+n*v
		above := len(p.Pix) - below
		if below == 0 || above == 0 {
			continue
		}
		apart := float64(sum)/float64(below) - float64(total-sum)/float64(above)
		if between := float64(below) * float64(above) * apart * apart; between > most {
			best, most = v, between
		}
	}
	return best
}
