package faults

import "net/http"

// Source is the HTTP server from which a subject fetches its images, as far as
// a fault may reach for it.
type Source interface {
	// Intercept asks answer about each request until remove is called. An answer
	// that returns false has written nothing, and the request takes its ordinary
	// way; next serves that way. The newest interceptor is asked first.
	Intercept(answer func(w http.ResponseWriter, r *http.Request, next http.Handler) bool) (remove func())
}
