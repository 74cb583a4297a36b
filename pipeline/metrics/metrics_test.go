package metrics_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/dispatch"
	"deadwire/pipeline/metrics"
)

func scrape(t *testing.T, address string) string {
	t.Helper()
	response, err := http.Get("http://" + address + "/metrics")
	assert.NilError(t, err)
	body, err := io.ReadAll(response.Body)
	assert.NilError(t, err)
	assert.NilError(t, response.Body.Close())
	return string(body)
}

func TestScrapeShowsHowDispatchesEnded(t *testing.T) {
	t.Parallel()
	m := metrics.New()
	address, wait, err := m.Serve(t.Context(), "127.0.0.1:0")
	assert.NilError(t, err)
	m.Observe(dispatch.Outcome{Status: dispatch.Completed, Elapsed: time.Second, Counts: dispatch.Counts{Extracted: 7, Votes: 5, Damaged: 1}})
	m.Observe(dispatch.Outcome{Status: dispatch.HaltedOpenTrip, Trip: "envtrip-x"})
	body := scrape(t, address)
	for _, line := range []string{
		`conveyor_dispatches_total{status="completed"} 1`, `conveyor_dispatches_total{status="halted-open-trip"} 1`,
		`conveyor_cards_total{outcome="extracted"} 7`, `conveyor_cards_total{outcome="damaged"} 1`,
		`conveyor_votes_total{kind="printing"} 5`, "conveyor_batch_seconds_count 1", "conveyor_halted 1",
	} {
		assert.Assert(t, strings.Contains(body, line+"\n"), "%s is not in\n%s", line, body)
	}
	m.Observe(dispatch.Outcome{Status: dispatch.Empty})
	assert.Assert(t, strings.Contains(scrape(t, address), "conveyor_halted 0\n"))
	assert.NilError(t, wait())
}

func TestAddressInUseIsAnErrorAndTheEndOfTheContextEndsTheServer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	address, wait, err := metrics.New().Serve(ctx, "127.0.0.1:0")
	assert.NilError(t, err)
	_, _, err = metrics.New().Serve(t.Context(), address)
	assert.ErrorContains(t, err, "serve metrics: ")
	cancel()
	assert.NilError(t, wait())
}
