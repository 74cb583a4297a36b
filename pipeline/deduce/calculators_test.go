package deduce_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/deduce"
)

// four printings of one name: 1 and 2 share an illustration, 4 is of the oldest frame.
var four = []deduce.Printing{
	{ID: 1, SetCode: "aaa", Number: "7", Border: "black", Artist: "Ada Arnim", Illustration: "i1", Year: 2016, Frame: "2015"},
	{ID: 2, SetCode: "bbb", Number: "7", Border: "white", Artist: "Ada Arnim", Illustration: "i1", Year: 2018, Frame: "2015"},
	{ID: 3, SetCode: "ccc", Number: "9", Border: "black", Artist: "Bela Brandt", Illustration: "i3", Year: 2020, Frame: "2015"},
	{ID: 4, SetCode: "ddd", Number: "11", Border: "black", Artist: "Cleo Castell", Illustration: "i4", Year: 1994, Frame: "1993"},
}

func TestJoinKeyHeedsWhatSpeaksAgainst(t *testing.T) {
	t.Parallel()
	yes := true
	near, far := int64(0b111), int64(-1)
	symbols := map[string]int64{"aaa": 0, "bbb": far}
	for name, c := range map[string]struct {
		card    deduce.Card
		symbols map[string]int64
		want    deduce.Decision
	}{
		"another artist": {deduce.Card{SetCode: "ccc", Number: "9", Artist: "Ada Arnim"}, nil, deduce.Decision{Reason: deduce.ArtistMismatch, Survivors: []int64{3}}},
		"misread artist": {deduce.Card{SetCode: "ccc", Number: "9", Artist: "Bella Brandt"}, nil, deduce.Decision{Kind: deduce.Match, Printing: 3, Confidence: 0.85}},
		"doubtful":       {deduce.Card{SetCode: "ccc", Number: "9", Artist: "Bela Bogner"}, nil, deduce.Decision{Kind: deduce.Match, Printing: 3, Confidence: 0.65}},
		"too old":        {deduce.Card{SetCode: "ccc", Number: "9", Year: 2017}, nil, deduce.Decision{Reason: deduce.YearMismatch, Survivors: []int64{3}}},
		"old enough":     {deduce.Card{SetCode: "ccc", Number: "9", Year: 2018}, nil, deduce.Decision{Kind: deduce.Match, Printing: 3, Confidence: 0.85}},
		"frame":          {deduce.Card{SetCode: "ddd", Number: "11", Anchor: &yes}, nil, deduce.Decision{Reason: deduce.FrameMismatch, Survivors: []int64{4}}},
		"line not read":  {deduce.Card{SetCode: "ddd", Number: "11"}, nil, deduce.Decision{Kind: deduce.Match, Printing: 4, Confidence: 0.85}},
		"by symbol":      {deduce.Card{Number: "7", Symbol: &near}, symbols, deduce.Decision{Kind: deduce.Match, Printing: 1, Confidence: 0.75}},
		"symbol unknown": {deduce.Card{Number: "7", Symbol: &near}, map[string]int64{"aaa": 0}, deduce.Decision{Reason: deduce.Ambiguous, Survivors: []int64{1, 2}}},
		"symbols alike":  {deduce.Card{Number: "7", Symbol: &near}, map[string]int64{"aaa": 0, "bbb": 0b11111111}, deduce.Decision{Reason: deduce.Ambiguous, Survivors: []int64{1, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.card.HasEvidence = true
			assert.DeepEqual(t, deduce.JoinKey(c.card, deduce.Reference{Candidates: four, KnownSet: true, Symbols: c.symbols}), c.want)
		})
	}
}

func TestFallbackNeedsExactlyOneSurvivor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		card deduce.Card
		want deduce.Decision
	}{
		"nothing seen": {deduce.Card{}, deduce.Decision{Reason: deduce.NoSubCheck}},
		"border alone": {deduce.Card{Border: "white"}, deduce.Decision{Kind: deduce.Match, Printing: 2, Confidence: 0.7}},
		"two signals":  {deduce.Card{Border: "black", Artist: "Ada Arnim"}, deduce.Decision{Kind: deduce.Match, Printing: 1, Confidence: 0.8}},
		"several left": {deduce.Card{Border: "black"}, deduce.Decision{Reason: deduce.Ambiguous, Survivors: []int64{1, 3, 4}}},
		"none left":    {deduce.Card{Border: "silver"}, deduce.Decision{Reason: deduce.NoSurvivor}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.DeepEqual(t, deduce.Fallback(c.card, deduce.Reference{Candidates: four}), c.want)
		})
	}
}

func TestIllustration(t *testing.T) {
	t.Parallel()
	again := append([]deduce.Printing{{ID: 5, Artist: "Bela Brandt", Illustration: "i5"}}, four...)
	for name, c := range map[string]struct {
		artist     string
		candidates []deduce.Printing
		want       deduce.Decision
	}{
		"one printing":       {"Bela Brandt", four, deduce.Decision{Kind: deduce.Match, Printing: 3, Confidence: 0.85}},
		"shared picture":     {"Ada Arnim", four, deduce.Decision{Kind: deduce.Depicts, Illustration: "i1", Rejected: []string{"i3", "i4"}, Confidence: 0.85}},
		"two pictures":       {"Bela Brandt", again, deduce.Decision{Reason: deduce.Ambiguous, Survivors: []int64{3, 5}}},
		"unread":             {"", four, deduce.Decision{Reason: deduce.ArtistUnread}},
		"drew none of these": {"Dario Dohm", four, deduce.Decision{Reason: deduce.NoIllustration}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.DeepEqual(t, deduce.Illustration(deduce.Card{Artist: c.artist}, deduce.Reference{Candidates: c.candidates}), c.want)
		})
	}
}

func TestEachCalculatorHasWhatTheEarlierLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		card deduce.Card
		want []string
	}{
		"found by its key":    {deduce.Card{HasEvidence: true, SetCode: "ccc", Number: "9"}, []string{"stage-d-join-key-v1", "stage-d-illustration-v2"}},
		"found by its border": {deduce.Card{HasEvidence: true, Border: "white"}, []string{"stage-d-join-key-v1", "stage-d-fallback-v1", "stage-d-illustration-v2"}},
		"left to a person":    {deduce.Card{HasEvidence: true}, []string{"stage-d-join-key-v1", "stage-d-fallback-v1", "stage-d-illustration-v2", "stage-d-slow-path-v1"}},
		"picture is enough":   {deduce.Card{HasEvidence: true, Artist: "Ada Arnim"}, []string{"stage-d-join-key-v1", "stage-d-fallback-v1", "stage-d-illustration-v2"}},
		"no evidence":         {deduce.Card{}, []string{"stage-d-join-key-v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var agents []string
			for _, said := range deduce.Consider(c.card, deduce.Reference{Candidates: four, KnownSet: true}) {
				agents = append(agents, said.Agent.Name)
			}
			assert.DeepEqual(t, agents, c.want)
		})
	}
}

func TestAttributes(t *testing.T) {
	t.Parallel()
	yes, none, full, odd := true, 0.4, 6.0, 3.5
	for name, c := range map[string]struct {
		card deduce.Card
		want map[string]int
	}{
		"modern, trimmed":     {deduce.Card{Border: "black", Number: "7", Bleed: "none", BleedMM: &none}, map[string]int{"black-border": 1, "modern-frame": 1, "appropriate-bleed": -1}},
		"old, with bleed":     {deduce.Card{Border: "borderless", Anchor: &yes, Bleed: "bleed", BleedMM: &full}, map[string]int{"borderless": 1, "old-frame": 1, "appropriate-bleed": 1}},
		"measurements differ": {deduce.Card{Bleed: "bleed", BleedMM: &odd}, map[string]int{}},
		"nothing known":       {deduce.Card{}, map[string]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			c.card.HasEvidence = true
			got := map[string]int{}
			for _, tag := range deduce.Attributes(c.card) {
				got[tag.Tag] = tag.Polarity
			}
			assert.DeepEqual(t, got, c.want)
		})
	}
	assert.Equal(t, len(deduce.Attributes(deduce.Card{Border: "black"})), 0, "without evidence")
}
