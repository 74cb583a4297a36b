// Package limits owns how fast and how often a destination is asked: pacing that
// all processes share through one row, back-off when the destination asks for it,
// and the latch after it locked us out. It does not fetch and does not decide what
// a lockout means for a batch. The database's clock is authoritative about time.
package limits

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Destination is a place with limits of its own.
type Destination struct {
	// Name is the key of the shared row.
	Name string
	// Rate is in requests per second, over all processes; 0 means no pacing.
	Rate float64
	// Concurrency is requests at a time in one process; 0 means no bound.
	Concurrency int
	// Lockout and Backoff are the status codes that lock out or ask to slow down.
	Lockout, Backoff []int
}

// The destinations that the specification gives limits for (section 2.2).
var (
	googleImage = Destination{"google_image", 7, 6, []int{http.StatusForbidden}, []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}}
	scryfallCDN = Destination{"scryfall_cdn", 10, 5, nil, nil}
	scryfallAPI = Destination{"scryfall_rest", 2, 2, nil, nil}
)

// For returns the limits of a URL's host. An unknown host is not paced, but is
// heard when it locks out or asks to slow down.
func For(address string) Destination {
	u, err := url.Parse(address)
	if err != nil {
		return Destination{Name: "unknown"}
	}
	host := strings.ToLower(u.Hostname())
	switch {
	case host == "drive.google.com" || strings.HasSuffix(host, ".googleusercontent.com"):
		return googleImage
	case host == "cards.scryfall.io":
		return scryfallCDN
	case host == "api.scryfall.com":
		return scryfallAPI
	}
	return Destination{Name: host, Lockout: googleImage.Lockout, Backoff: googleImage.Backoff}
}

func (d Destination) lockedBy(status int) bool { return slices.Contains(d.Lockout, status) }
func (d Destination) slowedBy(status int) bool { return slices.Contains(d.Backoff, status) }
