package scenarios

import (
	"cmp"
	"encoding/json"
	"time"

	"deadwire/faults"
	"deadwire/harness/event"
)

// Scenario is a named experiment with its variants.
type Scenario struct {
	Name     string   `json:"name"`
	Story    string   `json:"story"`
	Subject  string   `json:"subject"`           // "conveyor", when Command is empty
	Command  []string `json:"command,omitempty"` // any program instead
	Server   string   `json:"server,omitempty"`  // "shared" (default) or "own"
	TLS      string   `json:"tls,omitempty"`     // "refuse" (default) or "terminate"
	Witness  Witness  `json:"witness"`
	Workload Workload `json:"workload"`
	Limit    string   `json:"limit,omitempty"` // longest time a run of the subject may take; default 30s

	Cases []Case `json:"-"`
	File  string `json:"-"` // where it was read from
	Line  int    `json:"-"` // of its name
}

// Witness chooses how closely the subject is watched.
type Witness struct {
	Sends string `json:"sends,omitempty"` // "terminate" (default) or "all"
}

// Workload is what conveyor is given to do.
type Workload struct {
	Cards        int    `json:"cards,omitempty"`         // default 24
	Workers      int    `json:"workers,omitempty"`       // default 3
	Batch        int    `json:"batch,omitempty"`         // default 12
	Seed         string `json:"seed,omitempty"`          // of the card generator; default "deadwire"
	RecycleAfter int    `json:"recycle_after,omitempty"` // jobs after which a worker is replaced; default never
	DBTimeoutMS  int    `json:"db_timeout_ms,omitempty"` // deadline of each statement; default 5000
	// Redo: all the work was done once before, and is done again from the start.
	Redo bool `json:"redo,omitempty"`
	// ConnectTimeoutS is the deadline of each connect, in seconds; default 30. It is
	// no part of what most scenarios are about, so that a busy machine must not meet it.
	ConnectTimeoutS int `json:"connect_timeout_s,omitempty"`
	// Rate is how many fetches per second are paced over the database's shared row,
	// on a session of its own; default 0: no pacing.
	Rate int `json:"rate,omitempty"`
	// Dispatchers is how many conveyors work on the database at once: the first is a
	// stream, those beside it are sweeps with one worker each; default 1.
	Dispatchers int `json:"dispatchers,omitempty"`
	// ThrottleRetries is how often a dispatch that got no slot is tried again, after
	// short waits; default 0: as often and as long as conveyor does by itself.
	ThrottleRetries int `json:"throttle_retries,omitempty"`
}

// Case is one variant of a scenario.
type Case struct {
	Name     string      `json:"-"`
	Line     int         `json:"-"`
	Workload Workload    `json:"workload,omitempty"` // what differs from the scenario's
	Faults   []FaultStep `json:"faults,omitempty"`
	Expect   Expect      `json:"expect"`
	After    []Step      `json:"after,omitempty"`
	Resume   *Resume     `json:"resume,omitempty"`
}

// FaultStep is one fault and when it is injected.
type FaultStep struct {
	Fault faults.Fault
	When  faults.Trigger
}

// Step is done once the subject's first process has ended, in the order given.
// Exactly one field is set.
type Step struct {
	Locks  string `json:"locks,omitempty"`  // wait until the subject's advisory locks are "held" or "free"
	Closed string `json:"closed,omitempty"` // role of a session: wait until the client's end of it has reached the server
	Heal   string `json:"heal,omitempty"`   // take back the fault with that name
	End    string `json:"end,omitempty"`    // "workers": ask what is left of the subject to end (SIGTERM)
}

// Resume runs the subject again after all faults were healed.
type Resume struct {
	Expect Expect `json:"expect"`
}

// Expect is how a run must come out.
type Expect struct {
	Outcome    string         `json:"outcome"`              // completes, fails, killed, or any of these
	Power      string         `json:"power,omitempty"`      // how many faults must be seen to act: "all" (default) or "some"
	Error      string         `json:"error,omitempty"`      // regular expression for the subject's error output
	Endings    Endings        `json:"endings"`              // absent: none
	Findings   []FindingMatch `json:"findings,omitempty"`   // these, and no others
	Invariants Invariants     `json:"invariants"`           // absent: all are kept
	ServerLog  string         `json:"server_log,omitempty"` // "silent": no entry about the sessions' ends but plain disconnections
	Ledger     map[string]int `json:"ledger,omitempty"`     // rows by status, at least these
	Converges  bool           `json:"converges,omitempty"`  // the tables equal those of a fault-free run of the same workload
	NoRows     string         `json:"no_rows,omitempty"`    // SQL that must return no rows once the subject has ended
	Output     string         `json:"output,omitempty"`     // regular expression that a line of its output must match
	Forbid     string         `json:"forbid,omitempty"`     // regular expression that no line of its output may match
}

// Endings are the endings that must occur; ordinary ones need not be listed.
type Endings []EndingMatch

// EndingMatch describes endings. Empty fields match all.
type EndingMatch struct {
	Rule      string       `json:"rule"`
	Session   string       `json:"session,omitempty"` // role, wildcards allowed
	Actor     string       `json:"actor,omitempty"`   // opener, inheritor, server, fault, kernel, unknown
	Manner    event.Manner `json:"manner,omitempty"`
	State     event.State  `json:"state,omitempty"`
	SQLState  string       `json:"sqlstate,omitempty"`
	Certainty string       `json:"certainty,omitempty"`
	Count     string       `json:"count,omitempty"` // "one" (default), "some" (one or more), "any" (none or more)
}

// FindingMatch describes a finding.
type FindingMatch struct {
	Rule    string `json:"rule"`
	Session string `json:"session,omitempty"`
	Count   string `json:"count,omitempty"`
}

// Invariants says which promises must be broken, and which may be either
// ("any"); all others must be kept.
type Invariants map[string]string

// UnmarshalJSON takes "none" or a list.
func (e *Endings) UnmarshalJSON(text []byte) error {
	if string(text) == `"none"` {
		return nil
	}
	return json.Unmarshal(text, (*[]EndingMatch)(e))
}

// UnmarshalJSON takes "all" or a map from promise to kept, broken or any.
func (i *Invariants) UnmarshalJSON(text []byte) error {
	if string(text) == `"all"` {
		return nil
	}
	return json.Unmarshal(text, (*map[string]string)(i))
}

// limitDefault is the longest time a run of the subject may take before it
// counts as hanging: far above what any built-in workload needs.
const limitDefault = 30 * time.Second

func (s Scenario) limit() time.Duration {
	d, err := time.ParseDuration(s.Limit)
	if err != nil || d <= 0 {
		return limitDefault
	}
	return d
}

// with returns w with the fields that are set in other.
func (w Workload) with(other Workload) Workload {
	return Workload{
		Cards: cmp.Or(other.Cards, w.Cards), Workers: cmp.Or(other.Workers, w.Workers), Batch: cmp.Or(other.Batch, w.Batch),
		Seed: cmp.Or(other.Seed, w.Seed), RecycleAfter: cmp.Or(other.RecycleAfter, w.RecycleAfter), DBTimeoutMS: cmp.Or(other.DBTimeoutMS, w.DBTimeoutMS),
		ConnectTimeoutS: cmp.Or(other.ConnectTimeoutS, w.ConnectTimeoutS), Redo: other.Redo || w.Redo,
		Rate: cmp.Or(other.Rate, w.Rate), Dispatchers: cmp.Or(other.Dispatchers, w.Dispatchers), ThrottleRetries: cmp.Or(other.ThrottleRetries, w.ThrottleRetries),
	}
}

func (w Workload) withDefaults() Workload {
	return Workload{Cards: 24, Workers: 3, Batch: 12, Seed: "deadwire", DBTimeoutMS: 5000, ConnectTimeoutS: 30}.with(w)
}

// OwnServer reports whether the scenario needs a server to itself.
func (s Scenario) OwnServer() bool { return s.Server == "own" }
