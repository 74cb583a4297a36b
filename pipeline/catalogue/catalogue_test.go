package catalogue_test

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/cardgen"
	"deadwire/pipeline/catalogue"
)

const (
	goodIndex = `{"schema":"conveyor.index/1","cards":[{"identifier":"a","name":"Ash","file":"images/a.png",` +
		`"md5":"d41d8cd98f00b204e9800998ecf8427e","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",` +
		`"phash":"-9223372036854775808","dpi":0,"type":"CARD"}]}`
	goodPrintings = `{"schema":"conveyor.printings/1","printings":[{"uuid":"00000000-0000-4000-8000-000000000001",` +
		`"oracle_id":"00000000-0000-4000-8000-000000000002","name":"Ash","set_code":"dwa","collector_number":"1",` +
		`"artist":"Ada Brandt","border":"black"}]}`
)

func load(t *testing.T, index, printings string) (*catalogue.Catalogue, error) {
	t.Helper()
	dir := t.TempDir()
	assert.NilError(t, os.WriteFile(filepath.Join(dir, catalogue.IndexFile), []byte(index), 0o600))
	assert.NilError(t, os.WriteFile(filepath.Join(dir, catalogue.PrintingsFile), []byte(printings), 0o600))
	source, err := catalogue.ParseSource(dir)
	assert.NilError(t, err)
	return catalogue.Load(t.Context(), source)
}

func TestLoadReturnsWhatTheFilesSay(t *testing.T) {
	t.Parallel()
	c, err := load(t, goodIndex, goodPrintings)
	assert.NilError(t, err)
	assert.Equal(t, int64(*c.Cards[0].PHash), int64(math.MinInt64))
	assert.Equal(t, c.Printings[0].Artist, "Ada Brandt")
	index, err := catalogue.EncodeIndex(c.Cards)
	assert.NilError(t, err)
	printings, err := catalogue.EncodePrintings(c.Printings)
	assert.NilError(t, err)
	again, err := load(t, string(index), string(printings))
	assert.NilError(t, err)
	assert.DeepEqual(t, again.Cards, c.Cards)
	assert.DeepEqual(t, again.Printings, c.Printings)
}

func TestIndexIsCheckedStrictly(t *testing.T) {
	t.Parallel()
	card := goodIndex[strings.Index(goodIndex, "[")+1 : strings.Index(goodIndex, "]")]
	for _, tc := range []struct{ name, old, new, field, reason string }{
		{"unknown field", `"dpi"`, `"dots"`, "", "unknown field"},
		{"other schema", `index/1`, `index/2`, "schema", "want"},
		{"data after the end", `]}`, `]} {}`, "", "after the end"},
		{"not JSON", `{"schema"`, `schema`, "", "invalid character"},
		{"hash as a number", `"-9223372036854775808"`, `12`, "", "must be a string"},
		{"hash too large", `-9223372036854775808`, `9223372036854775808`, "", "out of range"},
		{"no identifier", `"identifier":"a"`, `"identifier":""`, "identifier", "1 to 200"},
		{"no name", `"Ash"`, `""`, "name", "empty"},
		{"path upwards", `images/a.png`, `../a.png`, "file", "below the source"},
		{"hidden path upwards", `images/a.png`, `images/../../a.png`, "file", "below the source"},
		{"absolute path", `images/a.png`, `/etc/hostname`, "file", "below the source"},
		{"path with a query", `images/a.png`, `a.png?x=1`, "file", "below the source"},
		{"short md5", `d41d8`, `d41`, "md5", "32"},
		{"upper-case sha256", `e3b0c`, `E3B0C`, "sha256", "64"},
		{"negative dpi", `"dpi":0`, `"dpi":-1`, "dpi", "negative"},
		{"unknown type", `"CARD"`, `"card"`, "type", "want CARD"},
		{"twice", card, card + "," + card, "identifier", "twice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, strings.Replace(goodIndex, tc.old, tc.new, 1), goodPrintings)
			assertInvalid(t, err, catalogue.IndexFile, tc.field, tc.reason)
		})
	}
}

func TestPrintingsAreCheckedStrictly(t *testing.T) {
	t.Parallel()
	printing := goodPrintings[strings.Index(goodPrintings, "[")+1 : strings.Index(goodPrintings, "]")]
	other := strings.Replace(printing, "8000-000000000001", "8000-000000000003", 1)
	for _, tc := range []struct{ name, old, new, field, reason string }{
		{"other schema", `printings/1`, `printings/2`, "schema", "want"},
		{"no UUID", `00000000-0000-4000-8000-000000000001`, `1`, "uuid", "not a UUID"},
		{"no oracle id", `00000000-0000-4000-8000-000000000002`, ``, "oracle_id", "not a UUID"},
		{"no name", `"Ash"`, `""`, "name", "empty"},
		{"no set", `"dwa"`, `""`, "set_code", "empty"},
		{"long number", `"collector_number":"1"`, `"collector_number":"12345678901234567"`, "collector_number", "16"},
		{"unknown border", `"black"`, `"gold"`, "border", "no border class"},
		{"UUID twice", printing, printing + "," + printing, "uuid", "twice"},
		{"slot twice", printing, printing + "," + other, "collector_number", "dwa 1 occurs twice"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, goodIndex, strings.Replace(goodPrintings, tc.old, tc.new, 1))
			assertInvalid(t, err, catalogue.PrintingsFile, tc.field, tc.reason)
		})
	}
}

func assertInvalid(t *testing.T, err error, file, field, reason string) {
	t.Helper()
	var invalid *catalogue.InvalidError
	assert.Assert(t, errors.As(err, &invalid), "%v", err)
	assert.Equal(t, invalid.File, file)
	assert.Equal(t, invalid.Field, field)
	assert.ErrorContains(t, err, reason)
}

func TestFolderAndHTTPGiveTheSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := cardgen.Write(t.Context(), dir, cardgen.Default(6, 1))
	assert.NilError(t, err)
	server := httptest.NewServer(http.StripPrefix("/cards", http.FileServer(http.Dir(dir))))
	defer server.Close()
	var got [][]byte
	for _, location := range []string{dir, "file://" + dir + "/", server.URL + "/cards", server.URL + "/cards/"} {
		source, err := catalogue.ParseSource(location)
		assert.NilError(t, err)
		c, err := catalogue.Load(t.Context(), source)
		assert.NilError(t, err)
		all, err := json.Marshal([]any{c.Cards, c.Printings})
		assert.NilError(t, err)
		got = append(got, all)
	}
	for _, g := range got[1:] {
		assert.Equal(t, string(g), string(got[0]))
	}
}

func TestSourceThatIsNotThere(t *testing.T) {
	t.Parallel()
	source, err := catalogue.ParseSource(filepath.Join(t.TempDir(), "none"))
	assert.NilError(t, err)
	_, err = catalogue.Load(t.Context(), source)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestParseSource(t *testing.T) {
	t.Parallel()
	s, err := catalogue.ParseSource("http://me:secret@127.0.0.1:1/a b")
	assert.NilError(t, err)
	assert.Equal(t, s.String(), "http://me:xxxxx@127.0.0.1:1/a%20b/")
	assert.Equal(t, s.URL("images/1.png"), "http://me:secret@127.0.0.1:1/a%20b/images/1.png")
	assert.Equal(t, catalogue.Source{}.String(), "")

	dir, err := catalogue.ParseSource("relative?#%41")
	assert.NilError(t, err)
	assert.Assert(t, strings.HasSuffix(dir.URL("x"), "/relative%3F%23%2541/x"), dir.URL("x"))

	for _, bad := range []string{"", "ftp://host/", "http://host/?q=1", "http://me:secret@host:port/"} {
		_, err := catalogue.ParseSource(bad)
		assert.ErrorContains(t, err, "parse source", bad)
		assert.Assert(t, !strings.Contains(err.Error(), "secret"))
	}
}
