package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

const (
	// idleTimeout is how long the repository may send nothing.
	idleTimeout = 30 * time.Second
	// tellEvery is the grain of progress.
	tellEvery = 5 << 20
)

// transport watches the requests of the library, which has no limits of time,
// shows no progress, takes a missing checksum for a right one, and keeps the
// reasons of its errors to itself.
type transport struct {
	base http.RoundTripper
	tell func(news)

	mu  sync.Mutex
	err error // the first one
}

// watchTransport puts a transport between the library and the network. It
// changes a variable of net/http, since the library gives no other way; this
// process does nothing else.
func watchTransport(tell func(news)) *transport {
	t := &transport{base: http.DefaultTransport, tell: tell}
	http.DefaultTransport = t
	return t
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	idle := time.AfterFunc(idleTimeout, func() { cancel(fmt.Errorf("nothing came for %v", idleTimeout)) })
	response, err := t.base.RoundTrip(request.WithContext(ctx))
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.Join(fmt.Errorf("it answers %s to %s", response.Status, request.URL.Redacted()), response.Body.Close())
	}
	if err != nil {
		idle.Stop()
		err = t.note(ctx, err)
		cancel(nil)
		return nil, err
	}
	response.Body = &body{ReadCloser: response.Body, ctx: ctx, cancel: cancel, idle: idle, total: response.ContentLength, of: t, shown: !strings.HasSuffix(request.URL.Path, ".jar"), name: path.Base(request.URL.Path)}
	return response, nil
}

// note keeps the first error; the one that ended ctx says more than its end.
func (t *transport) note(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
	return err
}

// explain returns the reason why the library failed: the network's, if it had
// one, else what the library says.
func (t *transport) explain(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	return err
}

// body counts what is read of a response.
type body struct {
	io.ReadCloser
	ctx    context.Context // of the request that the body belongs to
	cancel context.CancelCauseFunc
	idle   *time.Timer
	of     *transport
	name   string
	total  int64 // -1 when it is not told
	read   int64
	told   int64
	shown  bool // nothing to show, or shown
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.idle.Reset(idleTimeout)
	b.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.of.note(b.ctx, fmt.Errorf("download of %s broke off after %d bytes: %w", b.name, b.read, err))
	}
	if !b.shown && (b.read-b.told >= tellEvery || errors.Is(err, io.EOF)) {
		b.told, b.shown = b.read, errors.Is(err, io.EOF)
		b.of.tell(news{Progress: b.progress()})
	}
	return n, err
}

func (b *body) progress() string {
	const mebi = 1 << 20
	if b.total < 0 {
		return fmt.Sprintf("fetching %s: %d MB", b.name, b.read/mebi)
	}
	return fmt.Sprintf("fetching %s: %d of %d MB", b.name, b.read/mebi, b.total/mebi)
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.idle.Stop()
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
