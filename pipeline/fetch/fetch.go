// Package fetch owns getting bytes from an image source: over HTTP with reused
// connections, or from files; bounded in time, size and number; outcomes told
// apart by kind; results in submission order. It does not decide what an outcome
// means for a batch, nor does it pace across processes. The source's status code
// is the authority on throttling and lockout.
package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Outcome is how a fetch ended.
type Outcome string

// Outcomes. Only Throttled leaves a failure window untouched (pipeline rules, section 4.2).
const (
	Fetched   Outcome = "fetched"    // bytes are there
	NotFound  Outcome = "not-found"  // 404, 410, no such file
	Failed    Outcome = "failed"     // any other failure of the source or the network
	Throttled Outcome = "throttled"  // 429, 503: asked to slow down
	LockedOut Outcome = "locked-out" // 403, or refused unsent because an earlier fetch met 403
	Unchanged Outcome = "unchanged"  // 304: still what Request.Unless names
	Cancelled Outcome = "cancelled"  // our own context ended; says nothing about the source
)

// Request names something to fetch.
type Request struct {
	ID  string // the card's identifier; only passed through
	URL string // http, https or file
	// Unless is the Stamp of an earlier Result: the body is wanted only when it is
	// another one now. Files ignore it.
	Unless string
}

// Result is what became of a request. Err is nil exactly when Outcome is Fetched.
type Result struct {
	Request Request
	Outcome Outcome
	Body    []byte
	Status  int    // HTTP status; 0 without an answer, and for files
	Stamp   string // over HTTP: the ETag, else Last-Modified, else ""
	Latency time.Duration
	Err     error
}

// ErrLockedOut is the error of fetches that were not sent because the source has locked us out.
var ErrLockedOut = errors.New("source has locked us out")

// StatusError says that the source answered with a status other than 200.
type StatusError struct {
	URL        string // without password
	Code       int
	RetryAfter string // as the source said it; may be empty
}

func (e *StatusError) Error() string { return fmt.Sprintf("get %s: status %d", e.URL, e.Code) }

// TooLargeError says that a body is over the limit.
type TooLargeError struct {
	URL   string // without password
	Limit int64  // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("get %s: body is over the limit of %d bytes", e.URL, e.Limit)
}

// MaxBody is how large a body may be unless Config says otherwise, in bytes.
const MaxBody = 16 << 20

// Config bounds a Fetcher. The zero value is usable.
type Config struct {
	Fetchers    int           // fetches at a time; default 6
	Timeout     time.Duration // of one fetch, from request to the last byte; default 15 s
	MaxBody     int64         // bytes of one body; default MaxBody
	MaxInFlight int64         // bytes of all bodies being fetched or not yet taken by the consumer; default 128 MiB, at least MaxBody
	Client      *http.Client  // default: one of our own, with kept-alive connections
	// Admit, if set, is called before each request is sent and may wait: the place
	// for pacing. Its wait is outside Timeout. An error fails the fetch.
	Admit func(context.Context, Request) error
}

// Counters count ended fetches since the Fetcher was made.
type Counters struct {
	Fetched, NotFound, Failed, Throttled, LockedOut, Unchanged, Cancelled int64
	Bytes                                                                 int64
}

// Fetcher fetches. It is safe for concurrent use, and remembers a lockout for its life.
type Fetcher struct {
	cfg    Config
	locked atomic.Bool
	counts [7]atomic.Int64
	bytes  atomic.Int64
}

// New returns a Fetcher. Close it to drop idle connections.
func New(cfg Config) *Fetcher {
	if cfg.Fetchers <= 0 {
		cfg.Fetchers = 6
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 15 * time.Second
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = MaxBody
	}
	if cfg.MaxInFlight <= 0 {
		cfg.MaxInFlight = 128 << 20
	}
	cfg.MaxInFlight = max(cfg.MaxInFlight, cfg.MaxBody)
	if cfg.Client == nil {
		cfg.Client = newClient(cfg.Fetchers)
	}
	return &Fetcher{cfg: cfg}
}

func newClient(connections int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxConnsPerHost:     connections,
		MaxIdleConns:        connections,
		MaxIdleConnsPerHost: connections,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
		// images do not shrink, and a decompressed body would escape Content-Length
		DisableCompression: true,
	}}
}

// Close drops idle connections. Fetches that are under way are not affected.
func (f *Fetcher) Close() { f.cfg.Client.CloseIdleConnections() }

// LockedOut tells whether the source has answered 403 once.
func (f *Fetcher) LockedOut() bool { return f.locked.Load() }

// Counters returns the counts so far.
func (f *Fetcher) Counters() Counters {
	n := func(o Outcome) int64 { return f.counts[counter(o)].Load() }
	return Counters{
		Fetched: n(Fetched), NotFound: n(NotFound), Failed: n(Failed),
		Throttled: n(Throttled), LockedOut: n(LockedOut), Unchanged: n(Unchanged), Cancelled: n(Cancelled), Bytes: f.bytes.Load(),
	}
}

func counter(o Outcome) int {
	for i, known := range []Outcome{Fetched, NotFound, Failed, Throttled, LockedOut, Unchanged} {
		if o == known {
			return i
		}
	}
	return 6
}

// Fetch gets one body. It always returns within Config.Timeout after Admit.
func (f *Fetcher) Fetch(ctx context.Context, req Request) Result {
	r := f.admitAndGet(ctx, req)
	f.counts[counter(r.Outcome)].Add(1)
	f.bytes.Add(int64(len(r.Body)))
	return r
}

func (f *Fetcher) admitAndGet(ctx context.Context, req Request) Result {
	if f.cfg.Admit != nil {
		if err := f.cfg.Admit(ctx, req); err != nil {
			return ended(ctx, req, fmt.Errorf("admit fetch: %w", err))
		}
	}
	// looked at after the wait, so that who queued before the lockout does not send after it
	if f.locked.Load() {
		return Result{Request: req, Outcome: LockedOut, Err: ErrLockedOut}
	}
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	r, err := f.get(limited, req)
	if err != nil {
		status := r.Status
		r = ended(ctx, req, err)
		r.Status = status
	}
	if r.Outcome == LockedOut {
		f.locked.Store(true)
	}
	r.Latency = time.Since(began)
	return r
}

// ended classes an error. ctx is the caller's, without our own timeout.
func ended(ctx context.Context, req Request, err error) Result {
	r := Result{Request: req, Outcome: Failed, Err: err}
	var status *StatusError
	switch {
	case ctx.Err() != nil:
		r.Outcome = Cancelled
	case errors.Is(err, os.ErrNotExist):
		r.Outcome = NotFound
	case errors.As(err, &status):
		r.Outcome = outcomeOf(status.Code)
	}
	return r
}

func outcomeOf(code int) Outcome {
	switch code {
	case http.StatusNotModified:
		return Unchanged
	case http.StatusNotFound, http.StatusGone:
		return NotFound
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return Throttled
	case http.StatusForbidden:
		return LockedOut
	}
	return Failed
}

// get returns what was learnt even beside an error
func (f *Fetcher) get(ctx context.Context, req Request) (Result, error) {
	r := Result{Request: req, Outcome: Fetched}
	u, err := url.Parse(req.URL)
	if err != nil {
		return r, errors.New("get: not a URL") // the error would repeat a password
	}
	if u.Scheme == "file" {
		r.Body, err = f.getFile(u)
		return r, err
	}
	question, err := http.NewRequestWithContext(ctx, http.MethodGet, req.URL, nil)
	if err != nil {
		return r, fmt.Errorf("get %s: not a request", u.Redacted())
	}
	ask(question.Header, req.Unless)
	answer, err := f.cfg.Client.Do(question)
	if err != nil { // *url.Error, which masks the password itself
		return r, err
	}
	defer answer.Body.Close()
	r.Status = answer.StatusCode
	if answer.StatusCode != http.StatusOK {
		// a short rest is read, so that the connection can be used again
		_, _ = io.CopyN(io.Discard, answer.Body, 4<<10)
		return r, &StatusError{u.Redacted(), answer.StatusCode, answer.Header.Get("Retry-After")}
	}
	if r.Stamp = answer.Header.Get("ETag"); r.Stamp == "" {
		r.Stamp = answer.Header.Get("Last-Modified")
	}
	r.Body, err = f.read(answer.Body, answer.ContentLength, u)
	return r, err
}

// ask makes a request conditional (RFC 9110, section 13.1): an ETag is quoted, a date is not
func ask(header http.Header, unless string) {
	switch {
	case unless == "":
	case strings.Contains(unless, `"`):
		header.Set("If-None-Match", unless)
	default:
		header.Set("If-Modified-Since", unless)
	}
}

func (f *Fetcher) getFile(u *url.URL) ([]byte, error) {
	file, err := os.Open(u.Path)
	if err != nil {
		return nil, fmt.Errorf("get file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("get file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("get file %s: not a regular file", u.Path)
	}
	return f.read(file, info.Size(), u)
}

// read takes a body of at most MaxBody; size is what was announced, or negative
func (f *Fetcher) read(from io.Reader, size int64, u *url.URL) ([]byte, error) {
	if size > f.cfg.MaxBody {
		return nil, &TooLargeError{u.Redacted(), f.cfg.MaxBody}
	}
	// room for what was announced, so that a body is not copied while it grows
	body := bytes.NewBuffer(make([]byte, 0, max(0, size)+bytes.MinRead))
	_, err := body.ReadFrom(io.LimitReader(from, f.cfg.MaxBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("get %s: read body: %w", u.Redacted(), err)
	case int64(body.Len()) > f.cfg.MaxBody:
		return nil, &TooLargeError{u.Redacted(), f.cfg.MaxBody}
	}
	return body.Bytes(), nil
}
