// Package fork holds the faults of descriptor inheritance: what a worker does
// to a session that it inherited from its coordinator, and the runtime that
// does it inside the subject. The runtime speaks only in standard types, so
// that the pipeline never imports it and the production binary never links it.
package fork

import (
	"context"
	"errors"

	"deadwire/faults"
	"deadwire/harness/event"
)

// The acts, by what they do to the inherited session.
const (
	Terminate        = "terminate"          // send Terminate, as PQfinish does
	TerminateAtExit  = "terminate-at-exit"  // the same, but only when the worker leaves
	Query            = "query"              // send a query and leave its answer to whoever reads first
	Shutdown         = "shutdown"           // shutdown(2): ends the stream for every holder
	Hold             = "hold"               // keep it open after the coordinator is gone
	Close            = "close"              // close the descriptor only: harmless, a control
	Discard          = "discard"            // forget it: harmless, the control that is also the fix
	CloseBeforeStart = "close-before-start" // the coordinator closes its session before workers start
)

// Fork says what becomes of the coordinator's session across the start of its
// workers. It acts inside the subject, by the seam of `deadwire conveyor`.
type Fork struct {
	Do     string `json:"do" enum:"terminate,terminate-at-exit,query,shutdown,hold,close,discard,close-before-start" doc:"what is done to the session"`
	In     string `json:"in,omitempty" enum:"worker-init,worker-exit,coordinator" doc:"where it is done; only for the reader, it follows from do"`
	Worker int    `json:"worker,omitempty" doc:"number of the one worker that does it; default all"`
}

// Name implements faults.Fault.
func (Fork) Name() string { return "fork" }

// Arm implements faults.Armer.
func (Fork) Arm() bool { return true }

// Available implements faults.Fault.
func (Fork) Available(t faults.Target) error {
	switch {
	case t.Seam == nil:
		return errors.New("needs a subject with the fork seam (deadwire conveyor)")
	case t.Subject() != nil:
		return errors.New("must be set before the subject starts")
	default:
		return nil
	}
}

// Expects implements faults.Expecter.
func (f Fork) Expects() []faults.Expectation {
	switch f.Do {
	case Terminate, TerminateAtExit, Shutdown:
		return []faults.Expectation{{Rule: "fork.inherited-terminate", Role: "coordinator"}}
	case Hold:
		return []faults.Expectation{{Rule: "fork.held-by-descendant", Role: "coordinator"}}
	default:
		return nil
	}
}

// Inject implements faults.Fault. That it bit is recorded when the subject says
// so by a marker line.
func (f Fork) Inject(_ context.Context, t faults.Target, _ event.Recorder) (faults.Heal, error) {
	t.Seam.Fork = &faults.ForkAct{ID: t.ID, Do: f.Do, Worker: f.Worker}
	return func(context.Context) error {
		t.Seam.Fork = nil
		return nil
	}, nil
}
