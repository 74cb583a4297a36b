package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	// client_golang: Prometheus' own library for the exposition format.
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// headerMax bounds how long a client may take to say what it wants, closeMax how
// long the last answer may take.
const (
	headerMax = 10 * time.Second
	closeMax  = 2 * time.Second
)

// Exporter shows a soak under way to Prometheus. It counts what Observe is told and
// judges nothing.
type Exporter struct {
	registry *prometheus.Registry
	rounds   *prometheus.CounterVec
	bites    *prometheus.CounterVec
	recovery prometheus.Histogram
	seconds  prometheus.Histogram
}

// NewExporter makes an exporter whose numbers start at zero.
func NewExporter() *Exporter {
	m := &Exporter{
		registry: prometheus.NewRegistry(),
		rounds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deadwire_soak_rounds_total", Help: "Rounds by verdict.",
		}, []string{"verdict"}),
		bites: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "deadwire_soak_faults_total", Help: "Faults that were seen to act, by kind.",
		}, []string{"kind"}),
		recovery: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "deadwire_soak_recovery_seconds", Help: "Time of the run that resumes after healing.",
			Buckets: prometheus.ExponentialBuckets(0.1, 1.6, 14),
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "deadwire_soak_round_seconds", Help: "Time of whole rounds.",
			Buckets: prometheus.ExponentialBuckets(0.5, 1.6, 14),
		}),
	}
	m.registry.MustRegister(m.rounds, m.bites, m.recovery, m.seconds, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Observe takes in what a round came to.
func (m *Exporter) Observe(o Outcome) {
	m.rounds.WithLabelValues(string(o.Case.Verdict)).Inc()
	for _, kind := range o.Case.Faults {
		m.bites.WithLabelValues(kind).Inc()
	}
	m.seconds.Observe(float64(o.Case.DurationMS) / 1000)
	if o.Case.RecoveryMS > 0 {
		m.recovery.Observe(float64(o.Case.RecoveryMS) / 1000)
	}
}

// CheckAddress refuses an address of metrics that others than this machine could
// reach: they tell what is being tested.
func CheckAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q: want HOST:PORT, such as 127.0.0.1:9187", address)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fmt.Errorf("%q: metrics are served on loopback only, such as 127.0.0.1:9187", address)
	}
	return nil
}

// Serve answers GET /metrics on an address until stop is called, and returns where
// it listens.
func (m *Exporter) Serve(ctx context.Context, address string) (at string, stop func() error, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return "", nil, fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerMax}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return listener.Addr().String(), func() error {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeMax)
		defer cancel()
		err := server.Shutdown(bounded)
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	}, nil
}
