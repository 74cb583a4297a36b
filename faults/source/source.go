// Package source holds the faults of the HTTP server that images are fetched
// from: refusals, silence, bodies that are cut, broken or far too large. They
// answer in the place of the source that deadwire itself serves; nobody else's
// server is touched.
package source

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"deadwire/faults"
	"deadwire/harness/event"
)

// Which says which requests a fault answers, counted from its injection.
type Which struct {
	First int    `json:"first,omitempty" doc:"from which request on, from 1; default 1"`
	Count int    `json:"count,omitempty" doc:"how many; default all until it is healed"`
	Path  string `json:"path,omitempty" doc:"only requests whose file name matches, wildcards allowed"`
}

// choice counts the requests that Which speaks of.
type choice struct {
	Which
	mu   sync.Mutex
	seen int
}

func (c *choice) takes(r *http.Request) bool {
	if !faults.RoleMatches(c.Path, r.URL.Path) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen++
	first := max(c.First, 1)
	return c.seen >= first && (c.Count == 0 || c.seen < first+c.Count)
}

// intercept lets answer take the chosen requests' place until the heal.
func intercept(t faults.Target, rec event.Recorder, f faults.Fault, which Which, answer http.HandlerFunc) faults.Heal {
	return around(t, rec, f, which, func(w http.ResponseWriter, r *http.Request, _ http.Handler) { answer(w, r) })
}

// around is intercept for answers that begin with the ordinary one.
func around(t faults.Target, rec event.Recorder, f faults.Fault, which Which, answer func(http.ResponseWriter, *http.Request, http.Handler)) faults.Heal {
	c := &choice{Which: which}
	remove := t.Source.Intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
		if !c.takes(r) {
			return false
		}
		t.Bit(rec, f, event.SessionID{}, 0, "answered "+r.URL.Path)
		answer(w, r, next)
		return true
	})
	return faults.HealOnce(func(context.Context) error { remove(); return nil })
}

func available(t faults.Target) error {
	if t.Source == nil {
		return faults.ErrNeedsSource
	}
	return nil
}

// Status answers with a status code instead of an image: 404 (gone), 403 (locked
// out), 429 and 503 (slow down).
type Status struct {
	Code          int    `json:"code" doc:"HTTP status: 403, 404, 429, 503, …"`
	RetryAfterSec int    `json:"retry_after_s,omitempty" doc:"value of Retry-After in seconds; default none"`
	First         int    `json:"first,omitempty" doc:"from which request on, from 1; default 1"`
	Count         int    `json:"count,omitempty" doc:"how many; default all until it is healed"`
	Path          string `json:"path,omitempty" doc:"only requests whose file name matches, wildcards allowed"`
}

// Name implements faults.Fault.
func (Status) Name() string { return "source.status" }

// Available implements faults.Fault.
func (Status) Available(t faults.Target) error { return available(t) }

// Inject implements faults.Fault.
func (f Status) Inject(_ context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	if f.Code < 400 || f.Code > 599 {
		return nil, fmt.Errorf("code: %d: want an error, 400 to 599", f.Code)
	}
	return intercept(t, rec, f, Which{f.First, f.Count, f.Path}, func(w http.ResponseWriter, _ *http.Request) {
		if f.RetryAfterSec > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfterSec))
		}
		http.Error(w, http.StatusText(f.Code), f.Code)
	}), nil
}

// Hang takes requests and never answers, until it is healed or the client leaves.
type Hang struct {
	First int    `json:"first,omitempty" doc:"from which request on, from 1; default 1"`
	Count int    `json:"count,omitempty" doc:"how many; default all until it is healed"`
	Path  string `json:"path,omitempty" doc:"only requests whose file name matches, wildcards allowed"`
}

// Name implements faults.Fault.
func (Hang) Name() string { return "source.hang" }

// Available implements faults.Fault.
func (Hang) Available(t faults.Target) error { return available(t) }

// Inject implements faults.Fault.
func (f Hang) Inject(_ context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	over := make(chan struct{})
	heal := around(t, rec, f, Which(f), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		select {
		case <-over:
			next.ServeHTTP(w, r) // late, and right
		case <-r.Context().Done():
		}
	})
	return faults.HealOnce(func(ctx context.Context) error {
		close(over)
		return heal(ctx)
	}), nil
}

// Cut announces the whole body and hangs up after a part of it.
type Cut struct {
	Bytes int    `json:"bytes" doc:"how many bytes of the body are sent"`
	First int    `json:"first,omitempty" doc:"from which request on, from 1; default 1"`
	Count int    `json:"count,omitempty" doc:"how many; default all until it is healed"`
	Path  string `json:"path,omitempty" doc:"only requests whose file name matches, wildcards allowed"`
}

// Name implements faults.Fault.
func (Cut) Name() string { return "source.cut" }

// Available implements faults.Fault.
func (Cut) Available(t faults.Target) error { return available(t) }

// Inject implements faults.Fault.
func (f Cut) Inject(_ context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	return around(t, rec, f, Which{f.First, f.Count, f.Path}, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		whole := fetch(next, r)
		w.Header().Set("Content-Length", strconv.Itoa(max(len(whole), f.Bytes+1)))
		_, _ = w.Write(whole[:min(f.Bytes, len(whole))])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler) // net/http's way to hang up in the middle
	}), nil
}

// Corrupt serves the image with its middle overwritten: it has the right
// length, type and beginning, and cannot be decoded.
type Corrupt struct {
	First int    `json:"first,omitempty" doc:"from which request on, from 1; default 1"`
	Count int    `json:"count,omitempty" doc:"how many; default all until it is healed"`
	Path  string `json:"path,omitempty" doc:"only requests whose file name matches, wildcards allowed"`
}

// Name implements faults.Fault.
func (Corrupt) Name() string { return "source.corrupt" }

// Available implements faults.Fault.
func (Corrupt) Available(t faults.Target) error { return available(t) }

// Inject implements faults.Fault.
func (f Corrupt) Inject(_ context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	return around(t, rec, f, Which(f), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		body := fetch(next, r)
		broken := bytes.Clone(body)
		for i := len(broken) / 8; i < len(broken); i++ {
			broken[i] = 0xA5
		}
		_, _ = w.Write(broken)
	}), nil
}
