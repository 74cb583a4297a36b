package cardgen

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"deadwire/pipeline/catalogue"
)

// Frames of printings, as the bulk data of the reference names them.
const (
	frameModern = "2015"
	frameOld    = "1997"
)

// furnish gives printings what their sets decide, and the frames and illustrations
// of their own; it returns how many printings each set has.
func furnish(r *rand.Rand, printings []catalogue.Printing, oldFrame float64) map[string]int {
	totals := map[string]int{}
	for i := range printings {
		p := &printings[i]
		totals[p.SetCode]++
		p.ReleasedAt = fmt.Sprintf("%d-%02d-15", yearOf(p.SetCode), 1+len(p.SetCode))
		p.IllustrationID = uuid(r)
		p.Frame = frameModern
		if r.Float64() < oldFrame {
			p.Frame = frameOld
		}
	}
	return totals
}

func setIndex(code string) int { return slices.Index(setCodes, code) }

func yearOf(set string) int { return setYears[setIndex(set)] }

var (
	setCodes   = []string{"dwa", "dwb", "cnv", "hrn", "2wr", "pltm"}
	setNames   = []string{"Deadwire Alpha", "Deadwire Beta", "Conveyance", "Harness Rising", "Second Wire Remastered", "Platform"}
	setYears   = []int{2016, 2018, 2019, 2021, 2022, 2023}
	firstNames = []string{"Ada", "Bela", "Cleo", "Dario", "Edda", "Finn", "Gesa", "Hugo"}
	lastNames  = []string{"Arnim", "Brandt", "Castell", "Dohm", "Ebers", "Fabian", "Grote"}
	adjectives = []string{
		"Ashen", "Brazen", "Cold", "Drifting", "Elder", "Fallow", "Gilded", "Hollow", "Iron", "Jagged", "Keen", "Lone",
		"Mossy", "Northern", "Ochre", "Pale", "Quiet", "Rusted", "Silent", "Thorned", "Umber", "Veiled", "Woven",
	}
	nouns = []string{
		"Anchor", "Beacon", "Courier", "Duelist", "Envoy", "Falcon", "Garden", "Harbor", "Idol", "Juggler", "Keeper",
		"Lantern", "Mirror", "Notary", "Orchard", "Pilgrim", "Quarry", "Ranger", "Sentinel", "Tower", "Usher", "Vault", "Warden",
	}
)
