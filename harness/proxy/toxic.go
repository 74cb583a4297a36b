package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Stream is a direction through a link.
type Stream string

// The directions, in Toxiproxy's words.
const (
	Upstream   Stream = "upstream"   // from the subject to the server
	Downstream Stream = "downstream" // from the server to the subject
)

// Toxic is one effect on one stream of a link.
type Toxic struct {
	Name   string // unique on the link; default TYPE_STREAM, such as latency_downstream
	Stream Stream
	Effect Effect
}

// Effect is what a toxic does: one of the types below.
type Effect interface {
	kind() string // Toxiproxy's name of the type
	check() error
}

// Latency delays all data by LatencyMS, give or take JitterMS.
type Latency struct {
	LatencyMS int64 `json:"latency"`
	JitterMS  int64 `json:"jitter"`
}

// Bandwidth limits a connection to RateKBs kilobytes per second; 0 stops it.
type Bandwidth struct {
	RateKBs int64 `json:"rate"`
}

// SlowClose delays the end of a connection.
type SlowClose struct {
	DelayMS int64 `json:"delay"`
}

// Timeout swallows all data and closes the connection after TimeoutMS; 0 never closes
// it, which makes a blackhole.
type Timeout struct {
	TimeoutMS int64 `json:"timeout"`
}

// ResetPeer ends a connection with RST, TimeoutMS after its first data. Only
// connections opened later: a live one ends with FIN at its next byte.
type ResetPeer struct {
	TimeoutMS int64 `json:"timeout"`
}

// Slicer cuts data into pieces of AverageBytes, give or take VariationBytes, with a
// pause between them.
type Slicer struct {
	AverageBytes   int `json:"average_size"`
	VariationBytes int `json:"size_variation"`
	DelayUS        int `json:"delay"`
}

// LimitData closes a connection after that many bytes of the stream.
type LimitData struct {
	Bytes int64 `json:"bytes"`
}

func (Latency) kind() string   { return "latency" }
func (Bandwidth) kind() string { return "bandwidth" }
func (SlowClose) kind() string { return "slow_close" }
func (Timeout) kind() string   { return "timeout" }
func (ResetPeer) kind() string { return "reset_peer" }
func (Slicer) kind() string    { return "slicer" }
func (LimitData) kind() string { return "limit_data" }

func (e Latency) check() error {
	if e.JitterMS > e.LatencyMS {
		return fmt.Errorf("jitter of %d ms is more than the latency of %d ms", e.JitterMS, e.LatencyMS)
	}
	return notNegative("latency", e.LatencyMS, "jitter", e.JitterMS)
}

func (e Bandwidth) check() error { return notNegative("rate", e.RateKBs) }
func (e SlowClose) check() error { return notNegative("delay", e.DelayMS) }
func (e Timeout) check() error   { return notNegative("timeout", e.TimeoutMS) }
func (e ResetPeer) check() error { return notNegative("timeout", e.TimeoutMS) }
func (e LimitData) check() error { return notNegative("bytes", e.Bytes) }

// check also keeps Toxiproxy's slicer from recursing without end.
func (e Slicer) check() error {
	switch {
	case e.AverageBytes <= 0:
		return errors.New("average size of a slice must be above 0")
	case e.VariationBytes < 0 || e.VariationBytes >= e.AverageBytes:
		return errors.New("size variation of a slice must be from 0 to below the average size")
	}
	return notNegative("delay", int64(e.DelayUS))
}

// notNegative checks pairs of a name and a value.
func notNegative(pairs ...any) error {
	for i := 0; i < len(pairs); i += 2 {
		if v := pairs[i+1].(int64); v < 0 {
			return fmt.Errorf("%s is negative: %d", pairs[i], v)
		}
	}
	return nil
}

// encode returns the toxic as Toxiproxy takes it in.
func (t Toxic) encode() (body []byte, name string, err error) {
	switch {
	case t.Effect == nil:
		return nil, "", errors.New("toxic has no effect")
	case t.Stream != Upstream && t.Stream != Downstream:
		return nil, "", fmt.Errorf("stream %q is neither upstream nor downstream", t.Stream)
	}
	if err := t.Effect.check(); err != nil {
		return nil, "", fmt.Errorf("check %s: %w", t.Effect.kind(), err)
	}
	if t.Name == "" {
		t.Name = t.Effect.kind() + "_" + string(t.Stream)
	}
	body, err = json.Marshal(map[string]any{
		"name": t.Name, "type": t.Effect.kind(), "stream": t.Stream, "toxicity": 1, "attributes": t.Effect,
	})
	return body, t.Name, err
}
