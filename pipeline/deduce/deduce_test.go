package deduce_test

import (
	"testing"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"deadwire/pipeline/deduce"
)

func TestNormalName(t *testing.T) {
	t.Parallel()
	for name, same := range map[string]string{
		"Sol Ring":          "solring",
		"SOLRING":           "solring",
		"Sol Ring (2)":      "solring",
		"Sol Ring - Copy":   "solring",
		"Jötun Grunt":       "jotungrunt",
		"Fire // Ice":       "fireice",
		"Who? (What)":       "whowhat",
		"(3)":               "3",
		"Borrowing 100,000": "borrowing100000",
	} {
		assert.Equal(t, deduce.NormalName(name), same, name)
	}
}

func TestNormalNameIsAFixedPoint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		once := deduce.NormalName(rapid.String().Draw(t, "name"))
		if twice := deduce.NormalName(once); twice != once {
			t.Fatalf("%q became %q", once, twice)
		}
	})
}

func TestJoinKey(t *testing.T) {
	t.Parallel()
	printings := []deduce.Printing{
		{ID: 1, SetCode: "ABC", Number: "007", Border: "black"},
		{ID: 2, SetCode: "XYZ", Number: "7"},
		{ID: 3, SetCode: "ABC", Number: "12a"},
		{ID: 4, SetCode: "XYZ", Number: "0012a"},
		{ID: 5, SetCode: "QQQ", Number: "99"},
	}
	card := func(set, number string) deduce.Card {
		return deduce.Card{HasEvidence: true, SetCode: set, Number: number}
	}
	blurred, bordered := card("ABC", "7"), card("abc", "7")
	blurred.Truncated = true
	bordered.Border = "white"
	for name, c := range map[string]struct {
		card  deduce.Card
		known bool
		want  deduce.Decision
	}{
		"set and number":        {card("abc", "7"), true, deduce.Decision{Kind: deduce.Match, Printing: 1, Confidence: 0.85}},
		"letters in the number": {card("XYZ", "12A"), true, deduce.Decision{Kind: deduce.Match, Printing: 4, Confidence: 0.85}},
		"border disagrees":      {bordered, true, deduce.Decision{Kind: deduce.Match, Printing: 1, Confidence: 0.65}},
		"number alone":          {card("", "99"), false, deduce.Decision{Kind: deduce.Match, Printing: 5, Confidence: 0.75}},
		"number alone, twice":   {card("", "7"), false, deduce.Decision{Reason: deduce.Ambiguous, Survivors: []int64{1, 2}}},
		"other number":          {card("ABC", "8"), true, deduce.Decision{Kind: deduce.NoMatch, Confidence: 0.6}},
		"noise is no no-match":  {card("ZZZ", "8"), false, deduce.Decision{Reason: deduce.UnknownSetCode}},
		"nothing was read":      {card("ABC", ""), true, deduce.Decision{Reason: deduce.NoText}},
		"truncated":             {blurred, true, deduce.Decision{Reason: deduce.TruncatedImage}},
		"no evidence":           {deduce.Card{}, false, deduce.Decision{Reason: deduce.NoEvidence}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.DeepEqual(t, deduce.JoinKey(c.card, deduce.Reference{Candidates: printings, KnownSet: c.known}), c.want)
		})
	}
}

func TestSplitWritesOnlyWhatDiffers(t *testing.T) {
	t.Parallel()
	held := []deduce.Vote{{Card: 1, Printing: 10}, {Card: 2, Printing: 20}, {Card: 4, Printing: 0}, {Card: 5, Printing: 50}, {Card: 5, Printing: 51}}
	proposed := []deduce.Vote{{Card: 1, Printing: 10}, {Card: 2, Printing: 21}, {Card: 3, Printing: 30}, {Card: 4, Printing: 0}, {Card: 5, Printing: 50}}
	write, already := deduce.Split(proposed, held)
	assert.Equal(t, already, 2)
	assert.DeepEqual(t, write, []deduce.Vote{{Card: 2, Printing: 21}, {Card: 3, Printing: 30}, {Card: 5, Printing: 50}})
	assert.DeepEqual(t, deduce.Superseded(write, held), []deduce.Vote{{Card: 2, Printing: 20}, {Card: 5, Printing: 50}, {Card: 5, Printing: 51}})
}

func TestSplitIsIdempotent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cards := rapid.SliceOfNDistinct(rapid.Int64Range(1, 50), 0, 20, rapid.ID).Draw(t, "cards")
		var votes []deduce.Vote
		for _, card := range cards {
			votes = append(votes, deduce.Vote{Card: card, Printing: rapid.Int64Range(0, 3).Draw(t, "printing")})
		}
		write, already := deduce.Split(votes, votes)
		if len(write) != 0 || already != len(votes) {
			t.Fatalf("wrote %v, already %d", write, already)
		}
	})
}
