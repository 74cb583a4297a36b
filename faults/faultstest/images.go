package faultstest

import (
	"bytes"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"sync"

	"gotest.tools/v3/assert"
)

// images serves one real PNG under every path, and lets a fault answer first.
type images struct {
	server *httptest.Server
	body   []byte

	mu     sync.Mutex
	answer func(http.ResponseWriter, *http.Request, http.Handler) bool
}

// Intercept implements faults.Source.
func (i *images) Intercept(answer func(http.ResponseWriter, *http.Request, http.Handler) bool) (remove func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = answer
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.answer = nil
	}
}

// ServeHTTP implements http.Handler.
func (i *images) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	answer := i.answer
	i.mu.Unlock()
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(i.body) })
	if answer == nil || !answer(w, r, next) {
		next(w, r)
	}
}

func (s *Stage) serveImages() {
	picture := image.NewNRGBA(image.Rect(0, 0, 64, 64))
	for n := range picture.Pix {
		picture.Pix[n] = byte(n * n / 7)
	}
	var body bytes.Buffer
	assert.NilError(s.T, png.Encode(&body, picture))
	source := &images{body: body.Bytes()}
	source.server = httptest.NewServer(source)
	s.T.Cleanup(source.server.Close)
	s.Target.Source = source
}

// Images returns the address of the image source.
func (s *Stage) Images() string { return s.Target.Source.(*images).server.URL }
