package reference_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"gotest.tools/v3/assert"

	"deadwire/pipeline/cardgen"
	"deadwire/pipeline/catalogue"
	"deadwire/pipeline/reference"
	"deadwire/pipeline/schema/schematest"
	"deadwire/pipeline/session"
)

func TestMain(m *testing.M) { os.Exit(schematest.Main(m)) }

// rig is a database, a file of bulk data, and eyes on what is stored
type rig struct {
	*testing.T
	database session.Config
	file     string
	age      time.Time
	conn     *pgx.Conn
}

func setup(t *testing.T) *rig {
	t.Helper()
	url := schematest.Database(t)
	conn, err := pgx.Connect(t.Context(), url)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return &rig{t, session.Config{URL: url, Timeout: time.Minute}, filepath.Join(t.TempDir(), "cards.json"), time.Unix(1e9, 0), conn}
}

// object is a card as bulk data has it
type object map[string]any

func printing(n int, change object) object {
	o := object{
		"object": "card", "id": id(n), "oracle_id": id(9000 + n), "name": fmt.Sprint("Card ", n), "lang": "en", "released_at": "2019-05-03",
		"layout": "normal", "set": "dwa", "collector_number": fmt.Sprint(n), "artist": "Ada Brandt", "border_color": "black",
		"frame": "2015", "illustration_id": id(5000 + n), "unknown_field": []int{1},
	}
	for k, v := range change {
		o[k] = v
	}
	return o
}

func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// offer writes new bulk data, which is a second younger than what was there
func (r *rig) offer(objects ...object) {
	r.Helper()
	data, err := json.Marshal(objects)
	assert.NilError(r, err)
	r.write(data)
}

func (r *rig) write(data []byte) {
	r.Helper()
	r.age = r.age.Add(time.Second)
	assert.NilError(r, os.WriteFile(r.file, data, 0o600))
	assert.NilError(r, os.Chtimes(r.file, r.age, r.age))
}

func (r *rig) imported() reference.Report {
	r.Helper()
	report, err := reference.Import(r.Context(), r.database, r.file, reference.Options{})
	assert.NilError(r, err)
	return report
}

func (r *rig) value(query string) (value string) {
	r.Helper()
	assert.NilError(r, r.conn.QueryRow(r.Context(), query).Scan(&value))
	return value
}

const slots = `select coalesce(string_agg(id || ':' || right(identifier::text, 2) || '=' || set_code || collector_number, ' ' order by id), '') from printing`

func TestGeneratedBulkDataBecomesTheGeneratedPrintings(t *testing.T) {
	t.Parallel()
	r := setup(t)
	dir := t.TempDir()
	_, err := cardgen.Write(t.Context(), dir, cardgen.Default(40, 3))
	assert.NilError(t, err)
	report, err := reference.Import(t.Context(), r.database, filepath.Join(dir, catalogue.BulkFile), reference.Options{})
	assert.NilError(t, err)
	assert.DeepEqual(t, report.Skipped, map[string]int{reference.SkipDigital: 1})
	assert.Equal(t, report.Inserted, int64(41), "all, and the two-faced one")
	assert.Equal(t, report.Pairs, int64(1))
	assert.Equal(t, r.value(`select count(*)::text from printing where lang = 'en' and released_at is not null and illustration_id is not null`), "41")
	assert.Equal(t, r.value(`select front_name || '/' || normal_back from dfc_pair`), "Dusk Porter/dawnporter")
	assert.Equal(t, r.value(`select normal_name || jsonb_array_length(face_illustrations) from printing where layout = 'transform'`), "duskporter2")
}

// Nothing is written when nothing changed: not one row version.
func TestUnchangedDataWritesNothing(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.offer(printing(1, nil), printing(2, nil))
	first := r.imported()
	assert.Equal(t, first.Inserted, int64(2))
	const versions = `select string_agg(xmin::text || ctid::text, ' ' order by id) from printing`
	before := r.value(versions)

	again := r.imported()
	assert.Assert(t, again.Fresh)
	assert.Equal(t, again.Read, 0, "a fresh vintage is not read")

	r.offer(printing(2, nil), printing(1, nil)) // younger, and the same
	again = r.imported()
	assert.Assert(t, !again.Fresh)
	assert.Equal(t, again.Read, 2)
	assert.Equal(t, again.Previous, first.Vintage)
	assert.DeepEqual(t, again.Changes, reference.Changes{Printings: 2})
	assert.Equal(t, r.value(versions), before)
	assert.Equal(t, r.value(`select vintage from reference_vintage`), again.Vintage)

	r.offer(printing(1, object{"artist": "Bela Dohm"}), printing(2, nil))
	assert.DeepEqual(t, r.imported().Changes, reference.Changes{Printings: 2, Updated: 1})
}

// Keys of printings stay what votes referred to, whatever happens to identifiers and slots.
func TestSlotsThatMove(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		next []object
		want string
	}{
		"two exchange their numbers": {[]object{printing(1, object{"collector_number": "2"}), printing(2, object{"collector_number": "1"})}, "1:01=dwa2 2:02=dwa1"},
		"a new identifier":           {[]object{printing(1, object{"id": id(7)}), printing(2, nil)}, "1:07=dwa1 2:02=dwa2"},
		"one is not listed any more": {[]object{printing(2, nil)}, "1:01=dwa1 2:02=dwa2"},
		"its number is another's":    {[]object{printing(2, object{"collector_number": "1"})}, "1:01=dwa~1 2:02=dwa1"},
		"a chain":                    {[]object{printing(1, object{"collector_number": "3"}), printing(2, object{"collector_number": "1"}), printing(3, object{"collector_number": "2"})}, "1:01=dwa3 2:02=dwa1 3:03=dwa2"},
		"another language claims it": {[]object{printing(1, object{"id": id(4), "lang": "ja"}), printing(1, nil), printing(2, nil)}, "1:01=dwa1 2:02=dwa2"},
		"only another language":      {[]object{printing(1, nil), printing(2, nil), printing(3, object{"lang": "ja"})}, "1:01=dwa1 2:02=dwa2 3:03=dwa3"},
		"listed twice":               {[]object{printing(1, nil), printing(1, nil), printing(2, nil)}, "1:01=dwa1 2:02=dwa2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			r.offer(printing(1, nil), printing(2, nil))
			r.imported()
			r.offer(tc.next...)
			r.imported()
			assert.Equal(t, r.value(slots), tc.want)
		})
	}
}

// A source that is broken, cut or not what it should be changes nothing.
func TestFailuresChangeNothing(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.offer(printing(1, nil))
	r.imported()
	good, err := json.Marshal([]object{printing(1, object{"artist": "X"}), printing(2, nil)})
	assert.NilError(t, err)
	for name, data := range map[string][]byte{
		"cut":               good[:len(good)-9],
		"data after":        append(good[:len(good):len(good)], "[]"...),
		"not JSON":          []byte("<html>"),
		"empty":             nil,
		"no cards":          []byte("[]"),
		"wrong type":        []byte(`[{"object":"card","id":5}]`),
		"another format":    []byte(`[{"kind":"card","uuid":"x"},{"kind":"card","uuid":"y"}]`),
		"an object no end":  []byte(`[{"object":"` + strings.Repeat("x", 5<<20) + `"}]`),
		"gzip that is cut":  zipped(good)[:40],
		"gzip in name only": {0x1f, 0x8b, 1, 2, 3},
	} {
		r.write(data)
		_, err := reference.Import(t.Context(), r.database, r.file, reference.Options{})
		assert.Assert(t, err != nil, name)
		assert.Equal(t, r.value(slots), "1:01=dwa1", name)
		assert.Equal(t, r.value(`select artist from printing`), "Ada Brandt", name)
	}
	var format *reference.FormatError
	r.write([]byte("[]"))
	_, err = reference.Import(t.Context(), r.database, r.file, reference.Options{})
	assert.Assert(t, errors.As(err, &format))
	_, err = reference.Import(t.Context(), r.database, filepath.Join(t.TempDir(), "none"), reference.Options{})
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = reference.Import(t.Context(), r.database, t.TempDir(), reference.Options{})
	assert.ErrorContains(t, err, "not a regular file")
}

func zipped(data []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(data) // a buffer never fails
	_ = w.Close()
	return out.Bytes()
}

func TestSourcesBehindHTTP(t *testing.T) {
	t.Parallel()
	r := setup(t)
	data, err := json.Marshal([]object{printing(1, nil)})
	assert.NilError(t, err)
	lines, err := json.Marshal(printing(2, nil))
	assert.NilError(t, err)
	updated, status := "2026-11-30T09:00:00Z", http.StatusOK
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	mux.HandleFunc("/bulk", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"object":"bulk_data","type":"default_cards","updated_at":%q,"download_uri":%q}`, updated, server.URL+"/data.json.gz")
	})
	mux.HandleFunc("/list", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"object":"list","data":[{"type":"all_cards"},{"type":"default_cards","updated_at":"list","download_uri":"/lines"}]}`)
	})
	mux.HandleFunc("/error", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"object":"error","details":"gone away"}`)
	})
	mux.HandleFunc("/data.json.gz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); _, _ = w.Write(zipped(data)) })
	mux.HandleFunc("/lines", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(append(lines, '\n')) })
	mux.HandleFunc("/stall", func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, "[")
		w.(http.Flusher).Flush()
		<-req.Context().Done()
	})
	get := func(path string) (reference.Report, error) {
		return reference.Import(t.Context(), r.database, server.URL+path, reference.Options{Stall: 300 * time.Millisecond})
	}
	report, err := get("/bulk")
	assert.NilError(t, err)
	assert.Equal(t, report.Vintage, updated)
	report, err = get("/bulk")
	assert.NilError(t, err)
	assert.Assert(t, report.Fresh)
	checked, err := reference.Check(t.Context(), r.database, server.URL+"/bulk", reference.Options{})
	assert.NilError(t, err)
	assert.Assert(t, checked.Fresh)
	updated = "2026-12-01T09:00:00Z"
	checked, err = reference.Check(t.Context(), r.database, server.URL+"/bulk", reference.Options{})
	assert.NilError(t, err)
	assert.Assert(t, !checked.Fresh)
	report, err = get("/list")
	assert.NilError(t, err)
	assert.Equal(t, fmt.Sprint(report.Vintage, report.Inserted), "list1")
	report, err = get("/lines")
	assert.NilError(t, err)
	assert.Assert(t, strings.HasPrefix(report.Vintage, "sha256:"), report.Vintage)
	_, err = get("/error")
	assert.ErrorContains(t, err, "gone away")
	_, err = get("/stall")
	assert.ErrorIs(t, err, reference.ErrStalled)
	status = http.StatusForbidden
	_, err = get("/bulk")
	var source *reference.SourceError
	assert.Assert(t, errors.As(err, &source))
	assert.Equal(t, source.Status, http.StatusForbidden)
}

// endless serves a generated stream, and watches the heap meanwhile
type endless struct {
	cards, next int
	rest        []byte
	most        uint64
}

func (e *endless) Do(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Etag": {"big"}}, Body: io.NopCloser(e)}, nil
}

func (e *endless) Read(p []byte) (int, error) {
	for len(e.rest) == 0 {
		if e.next > e.cards {
			return 0, io.EOF
		}
		e.fill()
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// fill makes the next object; each has the four thousand bytes that real ones have
func (e *endless) fill() {
	if e.next%2000 == 0 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		e.most = max(e.most, m.HeapAlloc)
	}
	switch {
	case e.next == e.cards:
		e.rest = []byte("]")
	default:
		data, _ := json.Marshal(printing(e.next, object{"rulings": strings.Repeat("text ", 800)})) // always marshals
		e.rest = append([]byte{','}, data...)
		if e.next == 0 {
			e.rest[0] = '['
		}
	}
	e.next++
}

func TestMemoryIsFlatHoweverLongTheStream(t *testing.T) {
	r := setup(t)
	const cards = 26_000
	stream := &endless{cards: cards}
	began := time.Now()
	report, err := reference.Import(t.Context(), r.database, "http://bulk.invalid/cards", reference.Options{Client: stream})
	assert.NilError(t, err)
	assert.Equal(t, report.Inserted, int64(cards))
	assert.Assert(t, report.Bytes > 100<<20, "%d bytes", report.Bytes)
	t.Logf("%d MB in %v, heap at most %d MB", report.Bytes>>20, time.Since(began).Round(time.Millisecond), stream.most>>20)
	assert.Assert(t, stream.most < 48<<20, "%d bytes of heap", stream.most)
}
