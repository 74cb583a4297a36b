package main

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/cardgen"
)

func TestEachEndIsHeldAgainstItsTruth(t *testing.T) {
	t.Parallel()
	const mine, other = "p1", "p2"
	read := func(top string) end {
		return end{Identifier: "c", Kind: "CARD", Status: "unresolved", Hashed: true, Readable: true, Top: top, Scans: 1}
	}
	settled, token, silent := read(mine), read(mine), read("")
	settled.Status, token.Kind, silent.Scans = "resolved", "TOKEN", 0
	lost := end{Kind: "CARD", Status: "unresolved", Hashed: true}
	for name, c := range map[string]struct {
		end  end
		fact cardgen.Fact
		want string // of the verdict; "" when nothing is wrong
	}{
		"right":                      {read(mine), cardgen.Fact{Printing: mine}, ""},
		"wrong":                      {read(other), cardgen.Fact{Printing: mine}, "precision"},
		"no vote":                    {read(""), cardgen.Fact{Printing: mine}, "recall"},
		"no match, and it has one":   {read("no-match"), cardgen.Fact{Printing: mine}, "precision"},
		"no match, as it is printed": {read("no-match"), cardgen.Fact{Printing: mine, Misprint: cardgen.MisprintNumber}, ""},
		"settled by machines":        {settled, cardgen.Fact{Printing: mine}, "settled"},
		"a token with a vote":        {token, cardgen.Fact{Printing: mine}, "does not explain"},
		"damaged, with a vote":       {read(mine), cardgen.Fact{Printing: mine, Role: "damaged"}, "does not explain"},
		"damaged, and passed over":   {lost, cardgen.Fact{Printing: mine, Role: "damaged-listed"}, "does not explain"},
	} {
		t.Run(name, func(t *testing.T) {
			ends := []end{c.end, read(mine)}
			ends[0].Identifier, ends[1].Identifier = "a", "b"
			facts := map[string]cardgen.Fact{"a": c.fact, "b": {Printing: mine}}
			err := tally(ends, facts).verdict()
			if c.want == "" {
				assert.NilError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.want)
		})
	}
	var out strings.Builder
	tally([]end{silent}, map[string]cardgen.Fact{"c": {Printing: mine}}).print(&out)
	assert.Assert(t, strings.Contains(out.String(), "neither a vote nor a named skip"))
}
