package evidence_test

import (
	"context"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/evidence"
)

// fixed is a reader that always says the same
type fixed evidence.Text

func (f fixed) ReadText(context.Context, evidence.Page) evidence.Text { return evidence.Text(f) }

func TestTextAbstainsByName(t *testing.T) {
	t.Parallel()
	small, large := asPNG(t, plain(300, 420, grey(15), grey(130))), asPNG(t, plain(500, 700, grey(15), grey(130)))
	for _, tc := range []struct {
		name   string
		data   []byte
		reader evidence.TextReader
		skip   [3]string // collector line, artist, legal line
		kept   bool      // the keys
	}{
		{"small, whether there is an engine or not", small, nil, [3]string{evidence.SkipTooSmall, evidence.SkipTooSmall, evidence.SkipTooSmall}, true},
		{"no engine", large, nil, [3]string{evidence.SkipOCRUnavailable, evidence.SkipOCRUnavailable, evidence.SkipOCRUnavailable}, false},
		{"engine broke", large, fixed{Failure: evidence.SkipOCRFailed}, [3]string{evidence.SkipOCRFailed, evidence.SkipOCRFailed, evidence.SkipOCRFailed}, false},
		{"engine hung", large, fixed{Failure: evidence.SkipOCRTimeout}, [3]string{evidence.SkipOCRTimeout, evidence.SkipOCRTimeout, evidence.SkipOCRTimeout}, true},
		{"nothing read", large, fixed{}, [3]string{evidence.SkipNoText, evidence.SkipNoText, evidence.SkipNoText}, true},
		{"nothing understood", large, fixed{Collector: "x", Artist: "x", Legal: "x"}, [3]string{evidence.SkipUnparsed, evidence.SkipUnparsed, evidence.SkipUnparsed}, true},
		{"no reading passed", large, fixed{Collector: "1 XXX", SetCode: "xxx", Number: "1", Artist: "A", ArtistName: "A", Legal: "2019", Year: 2019}, [3]string{evidence.SkipRejected, "", ""}, true},
		{"all read", large, fixed{Collector: "1 DWA", SetCode: "dwa", Number: "1", Accepted: true, Artist: "A", ArtistName: "A", Legal: "2019", Year: 2019}, [3]string{}, true},
	} {
		e := extract(t, evidence.Input{Data: tc.data, Text: tc.reader})
		for i, name := range []string{evidence.CollectorLine, evidence.ArtistLine, evidence.LegalLine} {
			assert.Equal(t, strings.Join(reasons(e, name), ""), tc.skip[i], "%s: %s", tc.name, name)
			_, kept := e.Versions[name]
			assert.Equal(t, kept, tc.kept, tc.name)
		}
		if !tc.kept {
			assert.DeepEqual(t, e.Versions, evidence.VersionsWithoutText())
		}
	}
}

// The block code speaks where the line was not read, or not believed.
func TestBlockCodeFillsWhatTheLineLeavesOpen(t *testing.T) {
	t.Parallel()
	card := plain(500, 700, grey(15), grey(130))
	assert.NilError(t, evidence.DrawCode(card, evidence.Code{SetCode: "cnv", Number: "9"}))
	data := asPNG(t, card)
	for _, tc := range []struct {
		found fixed
		want  string
	}{
		{fixed{}, "cnv 9"},
		{fixed{Collector: "1", SetCode: "xxx", Number: "1"}, "cnv 9"},
		{fixed{Collector: "1", SetCode: "dwa", Number: "1", Accepted: true}, "dwa 1"},
	} {
		e := extract(t, evidence.Input{Data: data, Text: tc.found})
		assert.Equal(t, e.SetCode+" "+e.CollectorNumber, tc.want)
	}
}
