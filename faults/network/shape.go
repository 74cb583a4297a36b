package network

import (
	"context"
	"fmt"

	"deadwire/faults"
	"deadwire/harness/event"
	"deadwire/harness/proxy"
)

// Bandwidth limits every connection in both directions.
type Bandwidth struct {
	KBs int `json:"kbs" doc:"kilobytes per second, each way"`
}

// Name implements faults.Fault.
func (Bandwidth) Name() string { return "network.bandwidth" }

// Available implements faults.Fault.
func (Bandwidth) Available(t faults.Target) error { return needsLink(t) }

// Inject implements faults.Fault.
func (f Bandwidth) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	if f.KBs < 1 {
		return nil, fmt.Errorf("kbs: %d: want 1 or more; network.blackhole stops the traffic", f.KBs)
	}
	return addToxics(ctx, t, rec, f, proxy.Bandwidth{RateKBs: int64(f.KBs)})
}

// SlowClose keeps from each side for a while that the other one has hung up.
type SlowClose struct {
	MS int `json:"ms" doc:"delay of the FIN in milliseconds"`
}

// Name implements faults.Fault.
func (SlowClose) Name() string { return "network.slow-close" }

// Available implements faults.Fault.
func (SlowClose) Available(t faults.Target) error { return needsLink(t) }

// Inject implements faults.Fault.
func (f SlowClose) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	return addToxics(ctx, t, rec, f, proxy.SlowClose{DelayMS: int64(f.MS)})
}

// LimitData ends a connection once so many bytes of one direction have passed,
// wherever in a message that is.
type LimitData struct {
	Bytes int    `json:"bytes" doc:"how many bytes pass"`
	From  string `json:"from,omitempty" enum:"frontend,backend" doc:"whose bytes count; default backend"`
}

// Name implements faults.Fault.
func (LimitData) Name() string { return "network.limit-data" }

// Available implements faults.Fault.
func (LimitData) Available(t faults.Target) error { return needsLink(t) }

// Expects implements faults.Expecter.
func (LimitData) Expects() []faults.Expectation {
	return []faults.Expectation{{Rule: "network.closed"}}
}

// Inject implements faults.Fault.
func (f LimitData) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	stream := proxy.Downstream
	if f.From == string(event.Frontend) {
		stream = proxy.Upstream
	}
	return addToxic(ctx, t, rec, f, proxy.LimitData{Bytes: int64(f.Bytes)}, stream)
}
