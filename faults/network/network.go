// Package network holds the faults of the path between subject and server. It
// uses the taps for what must happen at an exact protocol message or to a live
// session, and Toxiproxy's toxics for the rest; the mechanisms themselves live
// in harness/tap and harness/proxy.
package network

import (
	"context"
	"errors"
	"fmt"
	"net"

	"deadwire/faults"
	"deadwire/harness/event"
	"deadwire/harness/tap"
)

// cutOf maps a manner's name to the tap's cut.
func cutOf(manner string) (tap.Cut, error) {
	switch manner {
	case "fin", "":
		return tap.CutFIN, nil
	case "rst":
		return tap.CutRST, nil
	case "blackhole":
		return tap.CutBlackhole, nil
	default:
		return "", fmt.Errorf("unknown manner %q: fin, rst or blackhole", manner)
	}
}

// expects returns the endings that a cut in that manner causes. Silence is named
// by what the session was doing when it began.
func expects(manner, role string) []faults.Expectation {
	switch manner {
	case "rst":
		return []faults.Expectation{{Rule: "network.reset", Role: role}}
	case "blackhole":
		return []faults.Expectation{{Rule: "network.blackhole", Role: role}, {Rule: "network.silent-drop", Role: role}}
	default:
		return []faults.Expectation{{Rule: "network.closed", Role: role}}
	}
}

// Cut ends one session at an exact protocol message. The subject sees FIN, RST
// or silence in the middle of what it does; the server sees a FIN or nothing.
// The cut itself is final; healing disarms a rule that did not fire.
type Cut struct {
	Manner   string              `json:"manner" enum:"fin,rst,blackhole" doc:"how the session is cut"`
	At       faults.MessageMatch `json:"at" doc:"the message at which it is cut"`
	Position string              `json:"position,omitempty" enum:"before,after" doc:"before the message is forwarded (default) or after"`
	Skip     int                 `json:"skip,omitempty" doc:"let that many matching messages pass first"`
	Tap      string              `json:"tap,omitempty" enum:"front,back" doc:"which tap cuts; default front"`
}

// Name implements faults.Fault.
func (Cut) Name() string { return "network.cut" }

// Arm implements faults.Armer: the rule must be set before the message can come.
func (Cut) Arm() bool { return true }

// Available implements faults.Fault.
func (Cut) Available(t faults.Target) error { return t.HasTap() }

// Expects implements faults.Expecter.
func (f Cut) Expects() []faults.Expectation {
	return expects(f.Manner, f.At.Session)
}

// Inject implements faults.Fault.
func (f Cut) Inject(_ context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	cut, err := cutOf(f.Manner)
	if err != nil {
		return nil, err
	}
	where := t.Front
	if f.Tap == "back" && t.Back != nil {
		where = t.Back
	}
	var cutOff sessions
	remove := where.AddRule(tap.Rule{
		Cause: t.ID,
		Match: f.At.On,
		Skip:  f.Skip,
		Do:    cut,
		After: f.Position == "after",
		Fired: func(s *tap.Session, m event.Message) {
			cutOff.add(s)
			t.Bit(rec, f, s.ID(), 0, f.Manner+" at "+say(m))
		},
	})
	return faults.HealOnce(func(context.Context) error {
		remove()
		return release(cutOff.all())
	}), nil
}

// release ends sessions that a blackhole still keeps open, so that the server
// lets go of what they hold. Sessions that have ended are left alone.
func release(sessions []*tap.Session) error {
	var errs []error
	for _, s := range sessions {
		select {
		case <-s.Done():
		default:
			// A leg that its peer closed meanwhile is as good as ended.
			if err := s.Cut(tap.CutFIN, ""); !errors.Is(err, tap.ErrEnded) && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// Reset ends live sessions at once, without regard to what they do.
type Reset struct {
	Session string `json:"session,omitempty" doc:"role of the sessions; default all"`
	Manner  string `json:"manner,omitempty" enum:"fin,rst,blackhole" doc:"how they are cut; default rst"`
}

// Name implements faults.Fault.
func (Reset) Name() string { return "network.reset" }

// Available implements faults.Fault.
func (Reset) Available(t faults.Target) error { return t.HasTap() }

// Expects implements faults.Expecter.
func (f Reset) Expects() []faults.Expectation {
	return expects(f.manner(), f.Session)
}

func (f Reset) manner() string {
	if f.Manner == "" {
		return "rst"
	}
	return f.Manner
}

// Inject implements faults.Fault.
func (f Reset) Inject(_ context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	cut, err := cutOf(f.manner())
	if err != nil {
		return nil, err
	}
	var errs []error
	var cutOff sessions
	for _, s := range t.Sessions(f.Session) {
		if err := s.Cut(cut, t.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		cutOff.add(s)
		t.Bit(rec, f, s.ID(), 0, f.manner())
	}
	return faults.HealOnce(func(context.Context) error { return release(cutOff.all()) }), errors.Join(errs...)
}
