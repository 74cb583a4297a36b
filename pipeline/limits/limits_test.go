package limits_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/limits"
	"deadwire/pipeline/schema/schematest"
	"deadwire/pipeline/session"
)

func TestMain(m *testing.M) { os.Exit(schematest.Main(m)) }

// instants reserves through a pacer and returns when each reservation falls due.
func instants(ctx context.Context, pacer limits.Pacer, gap time.Duration, count int) []time.Time {
	due := make([]time.Time, 0, count)
	for range count {
		wait := pacer.Reserve(ctx, gap)
		due = append(due, time.Now().Add(wait))
	}
	return due
}

func TestProcessesTogetherStayUnderOneCeiling(t *testing.T) {
	t.Parallel()
	config := session.Config{URL: schematest.Database(t)}
	destination := limits.Destination{Name: "somewhere", Rate: 100}
	const gap = 10 * time.Millisecond
	var mu sync.Mutex
	var all []time.Time
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			pacer := limits.NewShared(config, destination, 3)
			due := instants(t.Context(), pacer, gap, 40)
			assert.Check(t, pacer.Close(t.Context()))
			mu.Lock()
			defer mu.Unlock()
			all = append(all, due...)
		})
	}
	group.Wait()
	slices.SortFunc(all, time.Time.Compare)
	span := all[len(all)-1].Sub(all[0])
	assert.Assert(t, span >= (120-1)*gap-50*time.Millisecond, "120 reservations in %s", span)
}

func TestAnIdlePacerDoesNotSaveUpABurst(t *testing.T) {
	t.Parallel()
	pacer := limits.NewShared(session.Config{URL: schematest.Database(t)}, limits.Destination{Name: "x"}, 1)
	assert.Equal(t, pacer.Reserve(t.Context(), time.Millisecond), time.Duration(0))
	timer := time.NewTimer(100 * time.Millisecond)
	<-timer.C
	due := instants(t.Context(), pacer, time.Second, 3)
	assert.Assert(t, due[2].Sub(due[0]) > 1900*time.Millisecond)
	assert.NilError(t, pacer.Close(t.Context()))
}

func TestWithoutTheRowEachProcessTakesAShareOfTheRate(t *testing.T) {
	t.Parallel()
	pacer := limits.NewShared(session.Config{URL: schematest.Empty(t)}, limits.Destination{Name: "x"}, 6)
	due := instants(t.Context(), pacer, 10*time.Millisecond, 5)
	assert.Assert(t, pacer.Degraded())
	assert.Assert(t, due[4].Sub(due[0]) >= 4*7*10*time.Millisecond-5*time.Millisecond)
	assert.NilError(t, pacer.Close(t.Context()))
}

func TestUnreachableDatabaseDegradesAndNeverFails(t *testing.T) {
	t.Parallel()
	pacer := limits.NewShared(session.Config{URL: "postgres://postgres@127.0.0.1:1/none", Timeout: time.Second}, limits.Destination{Name: "x"}, 2)
	assert.Assert(t, pacer.Reserve(t.Context(), 10*time.Millisecond) > 20*time.Millisecond)
	assert.Assert(t, pacer.Degraded())
}

func TestBackOffWidensToSixteenAndDecaysAfterAHundredCleanAnswers(t *testing.T) {
	t.Parallel()
	l := limits.New(limits.For("https://drive.google.com/x"), nil)
	for range 6 {
		l.Observe(http.StatusTooManyRequests)
	}
	assert.Equal(t, l.Factor(), 16)
	for range 100 {
		l.Observe(http.StatusOK)
	}
	assert.Equal(t, l.Factor(), 8)
	for range 500 {
		l.Observe(http.StatusOK)
	}
	assert.Equal(t, l.Factor(), 1)
	assert.Assert(t, !l.LockedOut())
}

// slow is a pacer whose wait the test controls by the context.
type slow struct{ asked chan struct{} }

func (s slow) Reserve(context.Context, time.Duration) time.Duration {
	s.asked <- struct{}{}
	return 50 * time.Millisecond
}

func TestWhoQueuedBeforeALockoutDoesNotSendAfterIt(t *testing.T) {
	t.Parallel()
	var sent atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent.Add(1) }))
	defer server.Close()
	pacer := slow{asked: make(chan struct{})}
	destination := limits.For(server.URL)
	destination.Rate, destination.Concurrency = 100, 1
	l := limits.New(destination, pacer)
	client := &http.Client{Transport: l.RoundTripper(http.DefaultTransport)}
	queued := make(chan error)
	for range 3 {
		go func() {
			answer, err := client.Get(server.URL)
			if err == nil {
				_ = answer.Body.Close()
			}
			queued <- err
		}()
	}
	<-pacer.asked
	l.Observe(http.StatusForbidden)
	for range 3 {
		assert.ErrorIs(t, <-queued, limits.ErrLockedOut)
	}
	assert.Equal(t, sent.Load(), int32(0))
	_, err := l.Acquire(t.Context())
	assert.ErrorIs(t, err, limits.ErrLockedOut)
}

func TestPlaceIsFreeAgainAfterACancelledWait(t *testing.T) {
	t.Parallel()
	destination := limits.Destination{Name: "x", Rate: 1, Concurrency: 1}
	pacer := slow{asked: make(chan struct{}, 2)}
	l := limits.New(destination, pacer)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	_, err := l.Acquire(ctx)
	assert.ErrorIs(t, err, gone)
	release, err := l.Acquire(t.Context())
	assert.NilError(t, err)
	release()
}

func TestDestinationsAreKnownByTheirHost(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://lh3.googleusercontent.com/d/1": "google_image",
		"https://cards.scryfall.io/a.jpg":       "scryfall_cdn",
		"https://api.scryfall.com/bulk-data":    "scryfall_rest",
		"http://127.0.0.1:8080/a.png":           "127.0.0.1",
	} {
		assert.Equal(t, limits.For(address).Name, want)
	}
}
