package network

import (
	"context"
	"errors"

	"deadwire/faults"
	"deadwire/harness/event"
	"deadwire/harness/proxy"
)

func needsLink(t faults.Target) error {
	if t.Link == nil || t.Front == nil {
		return faults.ErrNeedsLink
	}
	return nil
}

// Latency delays all traffic in both directions.
type Latency struct {
	MS       int `json:"ms" doc:"delay in milliseconds, each way"`
	JitterMS int `json:"jitter_ms,omitempty" doc:"variation around it in milliseconds"`
}

// Name implements faults.Fault.
func (Latency) Name() string { return "network.latency" }

// Available implements faults.Fault.
func (Latency) Available(t faults.Target) error { return needsLink(t) }

// Inject implements faults.Fault.
func (f Latency) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	return addToxics(ctx, t, rec, f, proxy.Latency{LatencyMS: int64(f.MS), JitterMS: int64(f.JitterMS)})
}

// Slicer cuts the stream into small pieces, so that messages arrive in parts.
type Slicer struct {
	Bytes   int `json:"bytes" doc:"average size of a piece"`
	DelayUS int `json:"delay_us,omitempty" doc:"pause between pieces in microseconds"`
}

// Name implements faults.Fault.
func (Slicer) Name() string { return "network.slicer" }

// Available implements faults.Fault.
func (Slicer) Available(t faults.Target) error { return needsLink(t) }

// Inject implements faults.Fault.
func (f Slicer) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	return addToxics(ctx, t, rec, f, proxy.Slicer{AverageBytes: f.Bytes, VariationBytes: f.Bytes / 2, DelayUS: f.DelayUS})
}

// Blackhole swallows all traffic in both directions and closes nothing, until
// it is healed.
type Blackhole struct{}

// Name implements faults.Fault.
func (Blackhole) Name() string { return "network.blackhole" }

// Available implements faults.Fault.
func (Blackhole) Available(t faults.Target) error { return needsLink(t) }

// Expects implements faults.Expecter.
func (Blackhole) Expects() []faults.Expectation {
	return []faults.Expectation{{Rule: "network.blackhole"}}
}

// Inject implements faults.Fault.
func (f Blackhole) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	return addToxics(ctx, t, rec, f, proxy.Timeout{})
}

// Down takes the link away: live sessions end with FIN, new ones are refused.
type Down struct{}

// Name implements faults.Fault.
func (Down) Name() string { return "network.down" }

// Available implements faults.Fault.
func (Down) Available(t faults.Target) error { return needsLink(t) }

// Expects implements faults.Expecter.
func (Down) Expects() []faults.Expectation { return []faults.Expectation{{Rule: "network.closed"}} }

// Inject implements faults.Fault.
func (f Down) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	open := t.Front.Sessions()
	if err := t.Link.SetEnabled(ctx, false); err != nil {
		return nil, err
	}
	for _, s := range open {
		t.Bit(rec, f, s.ID(), 0, "link down")
	}
	return faults.HealOnce(func(ctx context.Context) error { return t.Link.SetEnabled(ctx, true) }), nil
}

// addToxics adds one toxic for each direction.
func addToxics(ctx context.Context, t faults.Target, rec event.Recorder, f faults.Fault, effect proxy.Effect) (faults.Heal, error) {
	return addToxic(ctx, t, rec, f, effect, proxy.Upstream, proxy.Downstream)
}

// addToxic adds a toxic to each of the streams.
func addToxic(ctx context.Context, t faults.Target, rec event.Recorder, f faults.Fault, effect proxy.Effect, streams ...proxy.Stream) (faults.Heal, error) {
	var added []string
	stop := biteOnSessions(ctx, t, rec, f)
	heal := faults.HealOnce(func(ctx context.Context) error {
		stop()
		var errs []error
		for _, name := range added {
			if err := t.Link.RemoveToxic(ctx, name); !errors.Is(err, proxy.ErrToxicNotFound) {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	})
	for _, stream := range streams {
		name, err := t.Link.AddToxic(proxy.Toxic{Name: t.ID + "-" + string(stream), Stream: stream, Effect: effect})
		if err != nil {
			return heal, err
		}
		added = append(added, name)
	}
	return heal, nil
}

// biteOnSessions records the bite for each session that the toxics meet: those
// open now, and the first one that opens later. It returns a function that
// stops looking.
func biteOnSessions(ctx context.Context, t faults.Target, rec event.Recorder, f faults.Fault) (stop func()) {
	since := t.Journal.Last()
	for _, s := range t.Front.Sessions() {
		t.Bit(rec, f, s.ID(), 0, "open session")
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e, err := t.Journal.Await(ctx, since, "a session", func(e event.Event) bool {
			return e.Kind == event.SessionOpened && e.Session.Place == event.Front
		})
		if err == nil {
			t.Bit(rec, f, e.Session, 0, "new session")
		}
	}()
	return func() { cancel(); <-done }
}
