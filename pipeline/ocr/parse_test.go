package ocr

import (
	"slices"
	"testing"

	"gotest.tools/v3/assert"
)

func lexicon() *Lexicon {
	return NewLexicon(slices.Values([]Printing{
		{"dwa", "21", "Ada Brandt"},
		{"dwa", "12a", "Edda Grote"},
		{"dwb", "21", "Hugo Castell"},
		{"2wr", "7", "Ada Brandt"},
		{"pltm", "1", "Ann Émile"},
		{"dwo", "3", ""},
		{"dw0", "4", "Cleo Ebers"},
	}))
}

func TestParseLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want line
	}{
		"with the set's size":     {"021/281 R\nDWA • EN", line{"dwa", "21", 281, true}},
		"after a rarity":          {"R 0021\nDWA * EN", line{"dwa", "21", 0, true}},
		"with a letter":           {"012a/281 R\nDWA + EN", line{"dwa", "12a", 281, true}},
		"zero read as Q":          {"Q21/281 R\nDWA « EN", line{"dwa", "21", 281, true}},
		"one read as l":           {"02l/28l R\nDWA ° EN", line{"dwa", "21", 281, true}},
		"bullet stuck to the set": {"021/281 R\nDWAe EN", line{"dwa", "21", 281, true}},
		"two read as Z":           {"007/099 R\nZWR • EN", line{"2wr", "7", 99, true}},
		"two sets look alike":     {"003/099 R\nDWQ • EN", line{"dwq", "3", 99, false}},
		"an unknown set":          {"021/281 R\nXQZ • EN", line{"xqz", "21", 281, false}},
		"another language":        {"021/281 R\nDWB • JA", line{"dwb", "21", 281, true}},
		"set without language":    {"12 pltm", line{"pltm", "12", 0, true}},
		"a number alone":          {"21", line{"", "21", 0, true}},
		"no digit at all":         {"Illus. Ada", line{"", "", 0, true}},
		"letters that look like":  {"SOB/IOI", line{"", "", 0, true}},
		"nothing":                 {"", line{"", "", 0, true}},
	} {
		assert.Equal(t, parseLine(tc.text, lexicon()), tc.want, name)
	}
	assert.Equal(t, parseLine("021/281 R\nXQZ • EN", nil), line{"xqz", "21", 281, true}, "without a lexicon nothing is gated")
}

func TestParseArtist(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text, want string
		anchored   bool
	}{
		"after an anchor":         {"rules\nIllus. Ada Brandt\n© 1997", "Ada Brandt", true},
		"anchor misread":          {"lllus. Hugo Castell", "Hugo Castell", true},
		"spelt out":               {"Illustrated by Edda Grote", "Edda Grote", true},
		"without an anchor":       {"021/281 R Ada Brandt\nDWA • EN ™ & © 2019", "Ada Brandt", false},
		"one letter misread":      {"021/281 R Hugo Gastell", "Hugo Castell", false},
		"with an accent":          {"Ann Emile", "Ann Émile", false},
		"nobody":                  {"021/281 R\nDWA • EN", "", false},
		"a stranger":              {"Illus. Iwo Jastrow", "", true},
		"only in the rules":       {"Ada Brandt waits\n1\n2\n3\n4", "", false},
		"short words are no name": {"draw a card", "", false},
	} {
		name2, anchored := parseArtist(tc.text, lexicon())
		assert.Equal(t, name2, tc.want, name)
		assert.Equal(t, anchored, tc.anchored, name)
	}
	name, anchored := parseArtist("Illus. Anybody At All.", nil)
	assert.Equal(t, name, "Anybody At All")
	assert.Assert(t, anchored)
}

func TestParseYear(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"™ & © 2019 Deadwire Press": 2019, "© 1993-2003 X": 2003, "™&©2019X": 2019, "021/2019": 0, "12019": 0, "© 3019": 0, "": 0,
	} {
		assert.Equal(t, parseYear(text), want, text)
	}
}

// The gates in action: texts go in, the best reading comes out.
func TestLadderDecides(t *testing.T) {
	t.Parallel()
	const good, other, strange = "021/281 R\nDWA • EN", "021/281 R\nDWB • EN", "021/281 R\nXQZ • EN"
	for name, tc := range map[string]struct {
		artist   string
		texts    []string
		want     string
		accepted bool
		more     bool
	}{
		"both agree":                      {"", []string{good, good}, "dwa 21", true, false},
		"the artist decides":              {"Ada Brandt", []string{other, good}, "dwa 21", true, false},
		"unknown set yields":              {"", []string{strange, good}, "dwa 21", true, true},
		"all contradicted":                {"Edda Grote", []string{good, good}, "dwa 21", false, true},
		"all unknown":                     {"", []string{strange, strange}, "xqz 21", false, true},
		"contradicted before unknown":     {"Edda Grote", []string{strange, good}, "dwa 21", false, true},
		"most readings":                   {"", []string{other, good, good, good, good, other}, "dwa 21", true, true},
		"padding misread":                 {"Ada Brandt", []string{"921/281 R\nDWA • EN", "921/281\nDWA EN"}, "dwa 21", true, false},
		"padding misread, nobody knows":   {"", []string{"921/281 R\nDWA • EN", "921/281\nDWA EN"}, " ", false, true},
		"a number that its set lacks":     {"Ada Brandt", []string{"150/281 R\nDWA • EN", "150/281 R\nDWA • EN"}, "dwa 150", true, true},
		"no text":                         {"", []string{"", ""}, " ", false, true},
		"text without digits, both tiers": {"", []string{"Illus", "Illus"}, " ", false, false},
	} {
		l := ladder{reader: &Reader{Lexicon: lexicon(), Shortcircuit: On}, artist: tc.artist}
		l.show(tc.texts)
		assert.Equal(t, l.wantsMore(), tc.more, name)
		found := l.decided()
		assert.Equal(t, found.SetCode+" "+found.Number, tc.want, name)
		assert.Equal(t, found.Accepted, tc.accepted, name)
	}
}

// Unset asks the environment each time; an explicit off is not the same as unset.
func TestShortcircuitHasThreeStates(t *testing.T) {
	for value, want := range map[string]bool{"": true, "0": true, "false": true, "1": false, "yes": false} {
		t.Setenv(noShortcircuit, value)
		assert.Equal(t, FromEnvironment.on(), want, value)
		assert.Assert(t, On.on() && !Off.on(), value)
	}
}
