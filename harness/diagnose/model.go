// Package diagnose explains how every session of a run ended, from the journal
// alone: it owns the rules, the endings and the findings. It does not observe,
// wait or touch a process; the taps and witnesses do that and record events.
// The events are authoritative: a diagnosis cites them by number and says
// unknown where they do not reach.
package diagnose

import "deadwire/harness/event"

// ActorKind says what kind of thing ended a session.
type ActorKind string

// The kinds of actors.
const (
	Opener    ActorKind = "opener"    // the process that called connect
	Inheritor ActorKind = "inheritor" // a holder that did not open the session
	Server    ActorKind = "server"    // PostgreSQL, or an administrator through it
	Fault     ActorKind = "fault"     // something that we broke on purpose; Actor.Fault names it
	Kernel    ActorKind = "kernel"    // the exit of the last holder closed the socket
	Unknown   ActorKind = "unknown"   // the evidence does not reach; Ending.Message says why
)

// Side is where an ending came from.
type Side string

// The sides of an ending.
const (
	SideSubject Side = "subject"
	SideNetwork Side = "network"
	SideServer  Side = "server"
)

// Certainty says how an ending's actor is known, best first.
type Certainty string

// The certainties. None of them is a guess: without evidence the actor is Unknown.
const (
	Exact    Certainty = "exact"    // the system call was observed
	Holders  Certainty = "holders"  // the holders before and after differ by the actor
	Inferred Certainty = "inferred" // from the protocol alone
)

// Actor is who ended a session. Fields that do not apply to Kind are zero.
type Actor struct {
	Kind  ActorKind `json:"kind"`
	PID   int       `json:"pid,omitempty"`
	PPID  int       `json:"ppid,omitempty"`
	Argv  []string  `json:"argv,omitempty"`
	Fault string    `json:"fault,omitempty"` // name of the fault, such as network.reset
}

// Process names a process by its pid; 0 when it is not known.
type Process struct {
	PID int `json:"pid"`
}

// Ending is how one session ended. Field order is the order in reports and is
// stable; fields may be added, never changed in meaning.
type Ending struct {
	Session       int          `json:"session"`        // number of the session at the front tap, from 1
	Role          string       `json:"role,omitempty"` // what the session was for, such as coordinator
	Rule          string       `json:"rule"`           // id in the catalogue, such as fork.inherited-terminate
	Actor         Actor        `json:"actor"`
	Opener        Process      `json:"opener"`
	HoldersBefore []int        `json:"holders_before"` // pids, ascending; empty when not known
	HoldersAfter  []int        `json:"holders_after"`
	Manner        event.Manner `json:"manner"`
	Side          Side         `json:"side"`
	State         event.State  `json:"state"`
	SQLState      string       `json:"sqlstate,omitempty"` // of the server's last FATAL or PANIC
	Certainty     Certainty    `json:"certainty"`
	Expected      bool         `json:"expected"`           // ordinary, or declared by an injected fault or the scenario
	Message       string       `json:"message,omitempty"`  // one sentence: who did what, and how it is known
	Mend          string       `json:"mend,omitempty"`     // what to change, for the stack that was recognised
	Software      []string     `json:"software,omitempty"` // that its opener was seen to use, such as psycopg2
	Stack         string       `json:"stack,omitempty"`    // of the actor in the act, by the user's own command
	Evidence      []int64      `json:"evidence"`           // event.Event.Seq of what it rests on, ascending
}

// Finding is anything wrong that is not an ending: a session shared and used
// while it lives on, a broken promise, a leak. It has a Rule or an Invariant.
type Finding struct {
	Rule      string  `json:"rule,omitempty"`
	Invariant string  `json:"invariant,omitempty"` // name of the broken promise, such as ledger-truthful
	Session   int     `json:"session,omitempty"`   // 0 when it concerns no single session
	PIDs      []int   `json:"pids,omitempty"`
	Message   string  `json:"message"` // one sentence
	Mend      string  `json:"mend,omitempty"`
	Evidence  []int64 `json:"evidence,omitempty"`
}
