package soak

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/harness/report"
	"deadwire/harness/verdict"
)

func TestMetricsCountWhatRoundsCameTo(t *testing.T) {
	t.Parallel()
	m := NewExporter()
	at, stop, err := m.Serve(t.Context(), "127.0.0.1:0")
	assert.NilError(t, err)
	m.Observe(Outcome{Case: report.Case{Verdict: verdict.Pass, Faults: []string{"fork", "network.cut"}, RecoveryMS: 1500, DurationMS: 4000}})
	m.Observe(Outcome{Case: report.Case{Verdict: verdict.Fail, Faults: []string{"fork"}}})
	response, err := http.Get("http://" + at + "/metrics")
	assert.NilError(t, err)
	text, err := io.ReadAll(response.Body)
	assert.NilError(t, err)
	assert.NilError(t, response.Body.Close())
	for _, want := range []string{
		`deadwire_soak_rounds_total{verdict="pass"} 1`, `deadwire_soak_rounds_total{verdict="fail"} 1`,
		`deadwire_soak_faults_total{kind="fork"} 2`, "deadwire_soak_recovery_seconds_count 1", "go_goroutines",
	} {
		assert.Assert(t, strings.Contains(string(text), want), want)
	}
	assert.NilError(t, stop())
	_, err = http.Get("http://" + at + "/metrics")
	assert.Assert(t, err != nil)
}

func TestMetricsStayOnThisMachine(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:9187", "localhost:0", "[::1]:9187"} {
		assert.NilError(t, CheckAddress(address))
	}
	for _, address := range []string{"0.0.0.0:9187", ":9187", "192.0.2.1:80", "example.org:80"} {
		assert.ErrorContains(t, CheckAddress(address), "loopback only")
	}
	assert.ErrorContains(t, CheckAddress("9187"), "want HOST:PORT")
}

func TestASlopeIsThatOfTheRounds(t *testing.T) {
	t.Parallel()
	var leaking, flat series
	for n := range 2000 {
		leaking.add(100 + 0.75*float64(n))
		flat.add(100 + float64(n%7))
	}
	assert.Assert(t, leaking.slope() > 0.74 && leaking.slope() < 0.76, "%g", leaking.slope())
	assert.Assert(t, flat.slope() < 0.01 && flat.slope() > -0.01, "%g", flat.slope())
	tally := newTally()
	tally.descriptors, tally.goroutines = leaking, flat
	assert.DeepEqual(t, tally.leaks(), []string{"nothing leaks: deadwire keeps 0.75 more descriptors with each round"})
	tally.descriptors.taken = roundsTelling - 1
	assert.Equal(t, len(tally.leaks()), 0)
}
