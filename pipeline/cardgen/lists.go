package cardgen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"deadwire/pipeline/catalogue"
)

// Fact is the truth about one card beyond its printing, as catalogue.FactsFile has it.
type Fact struct {
	Identifier string   `json:"identifier"`
	Printing   string   `json:"printing"`
	Role       string   `json:"role"` // ordinary, damaged, damaged-listed, twin, near-twin, uncoded, misprint
	Of         string   `json:"of,omitempty"`
	Misprint   Misprint `json:"misprint,omitempty"`
	// What the card prints; empty: not printed, or not decodable.
	SetCode string `json:"set_code,omitempty"`
	Number  string `json:"collector_number,omitempty"`
	Artist  string `json:"artist,omitempty"`
	Year    int    `json:"year,omitempty"`
	Frame   string `json:"frame,omitempty"`
}

func (k role) String() string {
	return [...]string{"ordinary", "damaged", "damaged-listed", "twin", "near-twin", "uncoded", "misprint"}[k]
}

func (p *plan) fact(i int, coded bool) Fact {
	c, from := p.cards[i], i
	f := Fact{Identifier: p.identifier(i), Printing: p.printings[c.printing].UUID, Role: c.role.String(), Misprint: c.fault}
	if c.role == twin || c.role == nearTwin {
		f.Of, from = p.identifier(c.of), c.of
	}
	if c.role == damaged || c.role == damagedListed {
		return f
	}
	shown := p.print(from)
	f.Artist, f.Frame = shown.Artist, shown.Frame
	if !coded {
		f.Year = shown.year
	}
	if shown.line && (coded || shown.Frame != frameOld) {
		f.SetCode, f.Number = shown.SetCode, shown.CollectorNumber
	}
	return f
}

func writeLists(dir string, p *plan, cards []catalogue.Card) error {
	r := renderer{height: p.spec.Height, coding: p.spec.Code}
	truth, facts := make(map[string]string, len(cards)), make([]Fact, len(cards))
	for i, c := range p.cards {
		truth[p.identifier(i)] = p.printings[c.printing].UUID
		facts[i] = p.fact(i, r.coded())
	}
	// the index comes last: where it is, the rest is
	for _, f := range []struct {
		name    string
		content func() ([]byte, error)
	}{
		{catalogue.TruthFile, func() ([]byte, error) { return indented(truth) }}, // sorted by key
		{catalogue.FactsFile, func() ([]byte, error) { return indented(facts) }},
		{catalogue.PrintingsFile, func() ([]byte, error) { return catalogue.EncodePrintings(p.printings) }},
		{catalogue.BulkFile, func() ([]byte, error) { return p.bulk() }},
		{catalogue.IndexFile, func() ([]byte, error) { return catalogue.EncodeIndex(cards) }},
	} {
		data, err := f.content()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, f.name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func indented(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", " ")
	return append(data, '\n'), err
}

// bulkCard is a card object of Scryfall's API (scryfall.com/docs/api/cards), as far
// as a reference needs it.
type bulkCard struct {
	Object          string            `json:"object"`
	ID              string            `json:"id"`
	OracleID        string            `json:"oracle_id,omitempty"`
	Name            string            `json:"name"`
	Lang            string            `json:"lang"`
	ReleasedAt      string            `json:"released_at"`
	Layout          string            `json:"layout"`
	ImageURIs       map[string]string `json:"image_uris,omitempty"`
	Games           []string          `json:"games"`
	Set             string            `json:"set"`
	SetName         string            `json:"set_name"`
	CollectorNumber string            `json:"collector_number"`
	Digital         bool              `json:"digital"`
	Rarity          string            `json:"rarity"`
	Artist          string            `json:"artist"`
	IllustrationID  string            `json:"illustration_id,omitempty"`
	BorderColor     string            `json:"border_color"`
	Frame           string            `json:"frame"`
	CardFaces       []bulkFace        `json:"card_faces,omitempty"`
}

type bulkFace struct {
	Object         string `json:"object"`
	Name           string `json:"name"`
	Artist         string `json:"artist"`
	IllustrationID string `json:"illustration_id"`
}

// bulk is an array with one card object a line. Some objects must not win: those in
// another language that claim the same number, and digital ones.
func (p *plan) bulk() ([]byte, error) {
	r := p.spec.random(purposeFrames, 1)
	var cards []bulkCard
	for i, printing := range p.printings {
		card := bulkOf(printing)
		if i%37 == 5 {
			foreign := card
			foreign.ID, foreign.Lang = uuid(r), "ja"
			cards = append(cards, foreign)
		}
		cards = append(cards, card)
	}
	faces := bulkOf(p.printings[0])
	faces.ID, faces.OracleID, faces.Layout, faces.CollectorNumber = uuid(r), uuid(r), "transform", "T1"
	faces.Name, faces.IllustrationID, faces.ImageURIs = "Dusk Porter // Dawn Porter", "", nil
	for _, name := range []string{"Dusk Porter", "Dawn Porter"} {
		faces.CardFaces = append(faces.CardFaces, bulkFace{"card_face", name, faces.Artist, uuid(r)})
	}
	digital := bulkOf(p.printings[0])
	digital.ID, digital.CollectorNumber, digital.Digital, digital.Games = uuid(r), "A-1", true, []string{"arena"}
	cards = append(cards, faces, digital)

	var out bytes.Buffer
	out.WriteString("[\n")
	for i, card := range cards {
		line, err := json.Marshal(card)
		if err != nil {
			return nil, fmt.Errorf("encode bulk data: %w", err)
		}
		if i > 0 {
			out.WriteString(",\n")
		}
		out.Write(line)
	}
	out.WriteString("\n]\n")
	return out.Bytes(), nil
}

func bulkOf(p catalogue.Printing) bulkCard {
	return bulkCard{
		Object: "card", ID: p.UUID, OracleID: p.OracleID, Name: p.Name, Lang: "en", ReleasedAt: p.ReleasedAt, Layout: "normal",
		ImageURIs: map[string]string{"art_crop": "https://cards.invalid/art_crop/" + p.UUID + ".jpg"},
		Games:     []string{"paper"}, Set: p.SetCode, SetName: setNames[setIndex(p.SetCode)], CollectorNumber: p.CollectorNumber,
		Rarity: "rare", Artist: p.Artist, IllustrationID: p.IllustrationID, BorderColor: p.Border, Frame: p.Frame,
	}
}
