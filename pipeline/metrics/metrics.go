// Package metrics shows what dispatches do, to Prometheus, when it is asked for. It
// decides nothing; the ledger is authoritative about what was done.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	// client_golang: Prometheus' own library for the exposition format.
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"deadwire/pipeline/dispatch"
)

// headerMax bounds how long a client may take to say what it wants; closeMax how long
// the last answer may take.
const (
	headerMax = 10 * time.Second
	closeMax  = 2 * time.Second
)

// Metrics is the pipeline's numbers, of this process.
type Metrics struct {
	registry   *prometheus.Registry
	dispatches *prometheus.CounterVec
	cards      *prometheus.CounterVec
	votes      *prometheus.CounterVec
	seconds    prometheus.Histogram
	halted     prometheus.Gauge
}

// New makes metrics that start at zero.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		dispatches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "conveyor_dispatches_total", Help: "Dispatches by how they ended.",
		}, []string{"status"}),
		cards: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "conveyor_cards_total", Help: "Cards of completed batches by what became of them in Stage C.",
		}, []string{"outcome"}),
		votes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "conveyor_votes_total", Help: "Votes of completed batches by kind.",
		}, []string{"kind"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "conveyor_batch_seconds", Help: "Time of completed batches, gates included.",
			Buckets: prometheus.ExponentialBuckets(0.05, 2, 14),
		}),
		halted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "conveyor_halted", Help: "1 while an open trip halts this process.",
		}),
	}
	m.registry.MustRegister(m.dispatches, m.cards, m.votes, m.seconds, m.halted, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Observe takes in how a dispatch ended.
func (m *Metrics) Observe(o dispatch.Outcome) {
	m.dispatches.WithLabelValues(o.Status).Inc()
	m.halted.Set(0)
	if o.Halted() {
		m.halted.Set(1)
	}
	if o.Status != dispatch.Completed && o.Status != dispatch.CompletedWithTrip {
		return
	}
	m.seconds.Observe(o.Elapsed.Seconds())
	for outcome, n := range map[string]int{
		"extracted": o.Extracted, "fetch-failed": o.FetchFailures, "fetch-throttled": o.Counts.Throttled,
		"damaged": o.Damaged, "parked": o.Parked,
	} {
		m.cards.WithLabelValues(outcome).Add(float64(n))
	}
	for kind, n := range map[string]int{
		"printing": o.Votes, "no-match": o.NoMatches, "propagated": o.Propagated, "already": o.Already, "skip": o.Skips,
	} {
		m.votes.WithLabelValues(kind).Add(float64(n))
	}
}

// Serve answers GET /metrics on the address until the context ends, and returns where
// it listens and what waits for its end.
func (m *Metrics) Serve(ctx context.Context, address string) (at string, wait func() error, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return "", nil, fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerMax}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	return listener.Addr().String(), func() error {
		defer stop()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeMax)
		defer cancel()
		err := server.Shutdown(bounded)
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	}, nil
}
