package cardgen

import (
	"fmt"
	"math/rand/v2"

	"deadwire/pipeline/catalogue"
	"deadwire/pipeline/evidence"
)

// role is what a card is, apart from the printing that it shows
type role int

const (
	ordinary      role = iota
	damaged            // cannot be decoded, and was never hashed
	damagedListed      // hashed when it was whole, damaged since
	twin               // same bytes as card `of`
	nearTwin           // picture of card `of`, encoded anew
	uncoded            // no collector code, no collector line
	misprint           // prints something that is not its printing's
)

type cardPlan struct {
	role     role
	of       int // for twins: an ordinary card
	printing int
	kind     catalogue.Type
	fault    Misprint
}

// plan is all that is decided before anything is drawn
type plan struct {
	spec      Spec
	printings []catalogue.Printing
	totals    map[string]int // printings by set code, as "/281" prints it
	cards     []cardPlan
	count     Summary
}

// Purposes split the seed, so that one kind of decision does not move another.
const (
	purposePrintings = iota + 1
	purposeRoles
	purposeArt
	purposeEncoding
	purposeFrames
)

func (s Spec) random(purpose, item uint64) *rand.Rand {
	return rand.New(rand.NewPCG(s.Seed, purpose<<48^item))
}

func newPlan(spec Spec) (*plan, error) {
	spec, err := spec.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &plan{spec: spec, cards: make([]cardPlan, spec.Cards)}
	p.printings = makePrintings(spec.random(purposePrintings, 0), max(12, spec.Cards))
	p.totals = furnish(spec.random(purposeFrames, 0), p.printings, spec.OldFrame)
	r := spec.random(purposeRoles, 0)
	// no printing twice, so that equal bytes are a twin's and nobody else's
	shown := r.Perm(len(p.printings))
	for i := range p.cards {
		p.cards[i].printing = shown[i]
		p.cards[i].kind = catalogue.TypeCard
		if r.IntN(20) == 0 {
			p.cards[i].kind = catalogue.TypeToken
		}
	}
	return p, p.assign(r)
}

// assign gives roles to a shuffled order of cards; who is left over is ordinary
func (p *plan) assign(r *rand.Rand) error {
	order := r.Perm(len(p.cards))
	shares := []struct {
		role  role
		share float64
		count *int
	}{
		{damaged, p.spec.Damaged, &p.count.Damaged},
		{damagedListed, p.spec.DamagedListed, &p.count.DamagedListed},
		{misprint, p.spec.Misprints, &p.count.Misprints},
		{uncoded, p.spec.Uncoded, &p.count.Uncoded},
		{twin, p.spec.Twins, &p.count.Twins},
		{nearTwin, p.spec.NearTwins, &p.count.NearTwins},
	}
	for _, s := range shares {
		n := int(s.share*float64(len(p.cards)) + 0.5)
		if n > len(order) || n == len(order) && n > 0 {
			return fmt.Errorf("shares leave no ordinary card among %d", len(p.cards))
		}
		for _, i := range order[:n] {
			p.cards[i].role = s.role
		}
		*s.count, order = n, order[n:]
	}
	for i, c := range p.cards {
		if c.role == twin || c.role == nearTwin {
			of := order[r.IntN(len(order))]
			p.cards[i] = cardPlan{role: c.role, of: of, printing: p.cards[of].printing, kind: p.cards[of].kind}
		}
		if c.role == misprint {
			p.cards[i].fault = misprints[r.IntN(len(misprints))]
			if p.printings[c.printing].Frame == frameOld { // it prints nothing else
				p.cards[i].fault = MisprintArtist
			}
		}
	}
	return nil
}

// makePrintings returns n printings: one to three of each card name, each in another set
func makePrintings(r *rand.Rand, n int) []catalogue.Printing {
	var out []catalogue.Printing
	numbers := make([]int, len(setCodes))
	for card := 0; len(out) < n; card++ {
		name, oracle := cardName(card), uuid(r)
		for _, set := range r.Perm(len(setCodes))[:1+r.IntN(3)] {
			numbers[set]++
			number := fmt.Sprint(numbers[set])
			if r.IntN(12) == 0 {
				number += "a"
			}
			out = append(out, catalogue.Printing{
				UUID: uuid(r), OracleID: oracle, Name: name,
				SetCode: setCodes[set], CollectorNumber: number,
				Artist: pick(r, firstNames) + " " + pick(r, lastNames),
				Border: border(r),
			})
		}
	}
	return out[:n]
}

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

func border(r *rand.Rand) string {
	switch n := r.IntN(10); {
	case n < 5:
		return evidence.BorderBlack
	case n < 7:
		return evidence.BorderWhite
	case n < 8:
		return evidence.BorderSilver
	}
	return evidence.BorderBorderless
}

// uuid is a version 4 UUID (RFC 9562) out of r
func uuid(r *rand.Rand) string {
	hi := r.Uint64()&^0xf000 | 0x4000
	lo := r.Uint64()&^(3<<62) | 2<<62
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", hi>>32, hi>>16&0xffff, hi&0xffff, lo>>48, lo&(1<<48-1))
}

// cardName is different for each n
func cardName(n int) string {
	name := adjectives[n%len(adjectives)] + " " + nouns[n/len(adjectives)%len(nouns)]
	if more := n / (len(adjectives) * len(nouns)); more > 0 {
		name = fmt.Sprintf("%s %d", name, more+1)
	}
	return name
}
