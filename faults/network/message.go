package network

import (
	"context"
	"fmt"

	"deadwire/faults"
	"deadwire/harness/event"
	"deadwire/harness/tap"
)

// Error answers the subject with an ErrorResponse at an exact message, in the
// server's place. ERROR leaves the session usable; FATAL ends it.
type Error struct {
	At       faults.MessageMatch `json:"at" doc:"the message at which it is injected"`
	SQLState string              `json:"sqlstate" doc:"five characters, such as 40001"`
	Severity string              `json:"severity,omitempty" enum:"ERROR,FATAL" doc:"default ERROR"`
	Text     string              `json:"text,omitempty" doc:"message text"`
	Position string              `json:"position,omitempty" enum:"before,after" doc:"instead of the message (default), or after the server has received it"`
	Skip     int                 `json:"skip,omitempty" doc:"let that many matching messages pass first"`
	Always   bool                `json:"always,omitempty" doc:"at every matching message after that, not only at the first"`
}

// Name implements faults.Fault.
func (Error) Name() string { return "network.error" }

// Arm implements faults.Armer.
func (Error) Arm() bool { return true }

// Available implements faults.Fault.
func (Error) Available(t faults.Target) error { return t.HasTap() }

// Expects implements faults.Expecter.
func (f Error) Expects() []faults.Expectation {
	if f.Severity != "FATAL" {
		return nil
	}
	rules := map[string]string{
		"57P01": "backend.admin-terminate", "57P02": "backend.crash-restart", "57P03": "backend.crash-restart",
		"25P03": "backend.session-timeout", "57P05": "backend.session-timeout", "25P04": "backend.session-timeout", "53300": "capacity.exhausted",
	}
	if rule, known := rules[f.SQLState]; known {
		return []faults.Expectation{{Rule: rule, Role: f.At.Session}}
	}
	return []faults.Expectation{{Rule: "network.closed", Role: f.At.Session}}
}

// Inject implements faults.Fault.
func (f Error) Inject(_ context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	if len(f.SQLState) != 5 {
		return nil, fmt.Errorf("sqlstate: %q: want five characters, such as 40001", f.SQLState)
	}
	text := f.Text
	if text == "" {
		text = "injected by deadwire"
	}
	remove := t.Front.AddRule(tap.Rule{
		Cause: t.ID, Match: f.At.On, Skip: f.Skip, Always: f.Always, After: f.Position == "after",
		Do: tap.InjectError{SQLState: f.SQLState, Text: text, Severity: f.Severity},
		Fired: func(s *tap.Session, m event.Message) {
			t.Bit(rec, f, s.ID(), 0, f.SQLState+" at "+say(m))
		},
	})
	return faults.HealOnce(func(context.Context) error { remove(); return nil }), nil
}

// Stall holds one message, and all that follows it in its direction, until it
// is healed. Nothing is lost: what was held is delivered then, however late.
type Stall struct {
	At       faults.MessageMatch `json:"at" doc:"the message that is held"`
	Skip     int                 `json:"skip,omitempty" doc:"let that many matching messages pass first"`
	Position string              `json:"position,omitempty" enum:"before,after" doc:"hold the message itself (default), or only what follows it"`
	ForMS    int                 `json:"for_ms,omitempty" doc:"release it after that many milliseconds; default when it is healed"`
}

// Name implements faults.Fault.
func (Stall) Name() string { return "network.stall" }

// Arm implements faults.Armer.
func (Stall) Arm() bool { return true }

// Available implements faults.Fault.
func (Stall) Available(t faults.Target) error { return t.HasTap() }

// Expects implements faults.Expecter.
func (f Stall) Expects() []faults.Expectation {
	return []faults.Expectation{{Rule: "network.blackhole", Role: f.At.Session}}
}

// Inject implements faults.Fault.
func (f Stall) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	held := make(chan struct{}, 1)
	remove := t.Front.AddRule(tap.Rule{
		Cause: t.ID, Match: f.At.On, Skip: f.Skip, After: f.Position == "after", Do: tap.Stall{},
		Fired: func(s *tap.Session, m event.Message) {
			t.Bit(rec, f, s.ID(), 0, "held at "+say(m))
			held <- struct{}{} // a rule that is not Always fires once
		},
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if f.ForMS > 0 {
			releaseAfter(ctx, held, f.ForMS, remove)
		}
	}()
	return faults.HealOnce(func(context.Context) error {
		cancel()
		<-done
		remove()
		return nil
	}), nil
}

func say(m event.Message) string { return fmt.Sprintf("%s %s %s", m.Type, m.Verb, m.Label) }
