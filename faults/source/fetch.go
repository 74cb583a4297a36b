package source

import (
	"bytes"
	"net/http"
)

// recorder keeps an ordinary answer's body.
type recorder struct {
	header http.Header
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(int) {}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// fetch returns the body of the ordinary answer, whole: what the client has
// already does not count.
func fetch(next http.Handler, r *http.Request) []byte {
	whole := r.Clone(r.Context())
	for _, condition := range []string{"Range", "If-None-Match", "If-Modified-Since"} {
		whole.Header.Del(condition)
	}
	kept := &recorder{header: http.Header{}}
	next.ServeHTTP(kept, whole)
	return kept.body.Bytes()
}
