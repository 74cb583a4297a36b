package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gotest.tools/v3/assert"

	"deadwire/pipeline/fetch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source serves with handle and is gone, with its goroutines, at the end of the test
func source(t *testing.T, cfg fetch.Config, handle http.HandlerFunc) (*fetch.Fetcher, string) {
	t.Helper()
	server := httptest.NewServer(handle)
	f := fetch.New(cfg)
	t.Cleanup(server.Close)
	t.Cleanup(f.Close)
	return f, server.URL
}

func get(t *testing.T, f *fetch.Fetcher, url string) fetch.Result {
	t.Helper()
	r := f.Fetch(t.Context(), fetch.Request{ID: "card", URL: url})
	assert.Equal(t, r.Err == nil, r.Outcome == fetch.Fetched)
	assert.Equal(t, r.Request.ID, "card")
	return r
}

func TestOutcomeOfStatus(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]fetch.Outcome{
		200: fetch.Fetched, 404: fetch.NotFound, 410: fetch.NotFound, 429: fetch.Throttled, 503: fetch.Throttled,
		403: fetch.LockedOut, 500: fetch.Failed, 401: fetch.Failed, 204: fetch.Failed, 206: fetch.Failed,
	} {
		f, url := source(t, fetch.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(code)
		})
		r := get(t, f, url+"/a.png")
		assert.Equal(t, r.Outcome, want, "status %d", code)
		assert.Equal(t, r.Status, code)
		var status *fetch.StatusError
		if errors.As(r.Err, &status) {
			assert.Equal(t, *status, fetch.StatusError{URL: url + "/a.png", Code: code, RetryAfter: "7"})
		}
	}
}

func TestLockoutIsLatchedAndNothingIsSentAfterIt(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	f, url := source(t, fetch.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusForbidden)
	})
	assert.Assert(t, !f.LockedOut())
	get(t, f, url)
	assert.Assert(t, f.LockedOut())
	r := get(t, f, url)
	assert.ErrorIs(t, r.Err, fetch.ErrLockedOut)
	assert.Equal(t, r.Outcome, fetch.LockedOut)
	assert.Equal(t, asked.Load(), int64(1))
	assert.Equal(t, f.Counters(), fetch.Counters{LockedOut: 2})
}

// Who waited for admission while another fetch was locked out must not send any more.
func TestLockoutReachesThoseWhoWait(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	release := make(chan struct{})
	cfg := fetch.Config{Admit: func(_ context.Context, r fetch.Request) error {
		if r.ID == "late" {
			<-release
		}
		return nil
	}}
	f, url := source(t, cfg, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusForbidden)
	})
	late := make(chan fetch.Result)
	go func() { late <- f.Fetch(t.Context(), fetch.Request{ID: "late", URL: url}) }()
	get(t, f, url)
	close(release)
	assert.ErrorIs(t, (<-late).Err, fetch.ErrLockedOut)
	assert.Equal(t, asked.Load(), int64(1))
}

func TestSourcesThatMisbehave(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		cfg    fetch.Config
		handle http.HandlerFunc
		check  func(*testing.T, error)
	}{
		{"hangs before the answer", fetch.Config{Timeout: 50 * time.Millisecond}, hang(false), isTimeout},
		{"hangs inside the body", fetch.Config{Timeout: 50 * time.Millisecond}, hang(true), isTimeout},
		{"cuts the body", fetch.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, "short")
		}, func(t *testing.T, err error) { assert.ErrorIs(t, err, io.ErrUnexpectedEOF) }},
		{"announces too much", fetch.Config{MaxBody: 10}, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "eleven byte")
		}, isTooLarge},
		{"sends too much unannounced", fetch.Config{MaxBody: 10}, func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				fmt.Fprint(w, "more")
				w.(http.Flusher).Flush()
			}
		}, isTooLarge},
		{
			"resets",
			fetch.Config{},
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			func(t *testing.T, err error) { assert.ErrorIs(t, err, io.EOF) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f, url := source(t, tc.cfg, tc.handle)
			r := get(t, f, url)
			assert.Equal(t, r.Outcome, fetch.Failed)
			tc.check(t, r.Err)
			assert.Equal(t, f.Counters().Failed, int64(1))
		})
	}
}

func hang(inBody bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if inBody {
			fmt.Fprint(w, "begin")
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	}
}

func isTimeout(t *testing.T, err error) { assert.ErrorIs(t, err, context.DeadlineExceeded) }

func isTooLarge(t *testing.T, err error) {
	assert.Assert(t, errors.As(err, new(*fetch.TooLargeError)), "%v", err)
}

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "a b.png"), []byte("pixels"), 0o600))
	f := fetch.New(fetch.Config{MaxBody: 6})
	r := get(t, f, "file://"+dir+"/a%20b.png")
	assert.Equal(t, string(r.Body), "pixels")
	assert.Equal(t, get(t, f, "file://"+dir+"/none.png").Outcome, fetch.NotFound)
	assert.Equal(t, get(t, f, "file://"+dir).Outcome, fetch.Failed)
	assert.Equal(t, f.Counters(), fetch.Counters{Fetched: 1, NotFound: 1, Failed: 1, Bytes: 6})
}

func TestPasswordsStayOutOfErrors(t *testing.T) {
	t.Parallel()
	f, url := source(t, fetch.Config{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	for _, address := range []string{
		strings.Replace(url, "http://", "http://me:secret@", 1),
		"http://me:secret@127.0.0.1:1/refused", "http://me:secret@host:port/", "ftp://me:secret@host/",
	} {
		err := get(t, f, address).Err
		assert.Assert(t, !strings.Contains(err.Error(), "secret"), "%v", err)
	}
}

func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	peers := sync.Map{}
	f, url := source(t, fetch.Config{Fetchers: 2}, func(w http.ResponseWriter, r *http.Request) {
		peers.Store(r.RemoteAddr, true)
		if strings.HasSuffix(r.URL.Path, "7") {
			w.WriteHeader(404)
		}
		fmt.Fprint(w, "x")
	})
	for range f.All(t.Context(), numbered(url, 50)) {
	}
	n := 0
	peers.Range(func(any, any) bool { n++; return true })
	assert.Assert(t, n <= 2, "%d connections", n)
}

func numbered(url string, n int) iter.Seq[fetch.Request] {
	return func(yield func(fetch.Request) bool) {
		for i := range n {
			if !yield(fetch.Request{ID: fmt.Sprint(i), URL: fmt.Sprintf("%s/%d", url, i)}) {
				return
			}
		}
	}
}

// Early answers must wait for late ones, and no more than the bound may be open at a time.
func TestAllKeepsSubmissionOrderWithinItsBounds(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	f, url := source(t, fetch.Config{Fetchers: 4}, func(w http.ResponseWriter, r *http.Request) {
		open := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); open > old && !most.CompareAndSwap(old, open); old = most.Load() {
		}
		if strings.HasSuffix(r.URL.Path, "0") {
			runtime.Gosched()
			select {
			case <-r.Context().Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
		fmt.Fprint(w, r.URL.Path)
	})
	next := 0
	for r := range f.All(t.Context(), numbered(url, 60)) {
		assert.NilError(t, r.Err)
		assert.Equal(t, r.Request.ID, fmt.Sprint(next))
		assert.Equal(t, string(r.Body), "/"+r.Request.ID)
		next++
	}
	assert.Equal(t, next, 60)
	assert.Assert(t, most.Load() >= 2 && most.Load() <= 4, "%d at a time", most.Load())
}

// A consumer that does not read must stop the source from being asked.
func TestBytesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	body := strings.Repeat("x", 1000)
	cfg := fetch.Config{Fetchers: 6, MaxBody: 1000, MaxInFlight: 3000}
	f, url := source(t, cfg, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, body)
	})
	taken := int64(0)
	for r := range f.All(t.Context(), numbered(url, 40)) {
		assert.NilError(t, r.Err)
		taken++
		assert.Assert(t, asked.Load() <= taken+2, "%d asked, %d taken: three bodies fit", asked.Load(), taken)
	}
	assert.Equal(t, taken, int64(40))
}

func TestConsumerThatStopsEndsEverything(t *testing.T) {
	t.Parallel()
	pulled := 0
	f, url := source(t, fetch.Config{Fetchers: 3}, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/0") {
			<-r.Context().Done()
		}
	})
	endless := func(yield func(fetch.Request) bool) {
		for r := range numbered(url, 1_000_000) {
			if pulled++; !yield(r) {
				return
			}
		}
	}
	for r := range f.All(t.Context(), endless) {
		assert.NilError(t, r.Err)
		break
	}
	assert.Assert(t, pulled <= 10, "%d pulled ahead", pulled) // and goleak finds nothing left
}

func TestEndOfContextIsNeverTakenForTheEndOfWork(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f, url := source(t, fetch.Config{Fetchers: 2}, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/3") {
			cancel()
			<-r.Context().Done()
		}
	})
	var outcomes []fetch.Outcome
	for r := range f.All(ctx, numbered(url, 100)) {
		outcomes = append(outcomes, r.Outcome)
	}
	assert.Assert(t, len(outcomes) < 100)
	assert.Equal(t, outcomes[0], fetch.Fetched)
	assert.Equal(t, outcomes[len(outcomes)-1], fetch.Cancelled)
	assert.Equal(t, f.Counters().Failed, int64(0), "our own end is not the source's failure")
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	refused := errors.New("budget spent")
	f, url := source(t, fetch.Config{Admit: func(context.Context, fetch.Request) error { return refused }},
		func(http.ResponseWriter, *http.Request) { t.Error("must not be asked") })
	r := get(t, f, url)
	assert.ErrorIs(t, r.Err, refused)
	assert.Equal(t, r.Outcome, fetch.Failed)
}

func TestUnchangedBodyIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]http.Header{
		"by tag":  {"Etag": {`"v1"`}},
		"by date": {"Last-Modified": {"Mon, 02 Nov 2026 10:00:00 GMT"}},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Etag", header.Get("Etag"))
			at, _ := http.ParseTime(header.Get("Last-Modified")) // the zero time sends no date
			http.ServeContent(w, r, "", at, strings.NewReader("body"))
		}))
		defer server.Close()
		f := fetch.New(fetch.Config{})
		defer f.Close()
		first := f.Fetch(t.Context(), fetch.Request{URL: server.URL})
		assert.Equal(t, string(first.Body), "body", name)
		assert.Assert(t, first.Stamp != "", name)
		again := f.Fetch(t.Context(), fetch.Request{URL: server.URL, Unless: first.Stamp})
		assert.Equal(t, again.Outcome, fetch.Unchanged, name)
		assert.Assert(t, again.Err != nil && again.Body == nil, name)
		assert.Equal(t, f.Counters().Unchanged, int64(1))
	}
}
