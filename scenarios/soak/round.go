package soak

import (
	"encoding/json"
	"fmt"

	"github.com/goccy/go-yaml" // writes what scenarios reads

	"deadwire/faults"
	"deadwire/faults/schedule"
	"deadwire/scenarios"
)

// Name of the scenario and of the case that a round is.
const (
	scenarioName = "soak"
	caseName     = "round"
)

// spec is a round as a scenario's text has it, in the order of its fields.
type spec struct {
	Name     string          `json:"name"`
	Story    string          `json:"story"`
	Server   string          `json:"server,omitempty"`
	Limit    string          `json:"limit"`
	Command  []string        `json:"command,omitempty"`
	Workload *specWorkload   `json:"workload,omitempty"`
	Cases    map[string]kase `json:"cases"`
}

type specWorkload struct {
	Cards       int    `json:"cards"`
	Workers     int    `json:"workers"`
	Batch       int    `json:"batch"`
	Seed        string `json:"seed"`
	DBTimeoutMS int    `json:"db_timeout_ms"`
	Redo        bool   `json:"redo,omitempty"`
	ConnectS    int    `json:"connect_timeout_s"`
	Rate        int    `json:"rate"`
	Dispatchers int    `json:"dispatchers,omitempty"`
	Throttle    int    `json:"throttle_retries"`
}

type kase struct {
	Faults []schedule.Entry `json:"faults,omitempty"`
	Expect faulted          `json:"expect"`
	After  []scenarios.Step `json:"after,omitempty"`
	Resume *resumed         `json:"resume,omitempty"`
}

type faulted struct {
	Outcome    string                   `json:"outcome"`
	Power      string                   `json:"power"`
	Endings    []ending                 `json:"endings,omitempty"`
	Findings   []scenarios.FindingMatch `json:"findings,omitempty"`
	Invariants map[string]string        `json:"invariants"`
	Forbid     string                   `json:"forbid,omitempty"`
}

type ending struct {
	Rule  string `json:"rule"`
	Count string `json:"count"`
}

type resumed struct {
	Expect healed `json:"expect"`
}

type healed struct {
	Outcome   string `json:"outcome"`
	Converges bool   `json:"converges,omitempty"`
	NoRows    string `json:"no_rows,omitempty"`
	Output    string `json:"output,omitempty"`
	Forbid    string `json:"forbid,omitempty"`
}

// bounds of one round
const (
	// limit is how long a run of the subject may take: a lost peer is noticed by
	// the statement's deadline, and a busy machine may be ten times as slow.
	limit = "90s"
	// dbTimeoutMS is the deadline of each statement.
	dbTimeoutMS = 5000
	// connectS is the deadline of each connect: enough for a busy machine, and short
	// enough for a round in which every connect is swallowed.
	connectS = 8
	// rate paces the fetches, in each second: hardly felt, but it takes a session.
	rate = 100
	// throttleRetries is how often a dispatch without a slot is tried again, so that a
	// dispatcher that is refused everything gives up well before the limit.
	throttleRetries = 4
	batches         = 3 // in a round
)

// Text returns a round as a scenario that `deadwire run` reads. It is pure.
func Text(seed string, r Round) (string, error) {
	s := spec{
		Name:  scenarioName,
		Story: fmt.Sprintf("Round %d of a soak with seed %s: the subject may fail while faults act, but must tell the truth, and come to the same end once they are healed.", r.N, seed),
		Limit: limit,
	}
	k := kase{Faults: r.Faults, Expect: expects(r.Faults)}
	end := healed{Outcome: "completes"}
	if p := r.Program; p != nil {
		s.Command, k.Expect.Forbid = p.Command, p.Forbid
		end.NoRows, end.Output, end.Forbid = p.Check, p.Expect, p.Forbid
	} else {
		s.Workload, k.After, end.Converges = r.Work.spec(), after(r.Faults), true
	}
	if !r.Once {
		k.Resume = &resumed{Expect: end}
	}
	s.Cases = map[string]kase{r.name(): k}
	if needsServer(r.Faults) {
		s.Server = "own"
	}
	text, err := json.Marshal(s)
	if err == nil {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return "", fmt.Errorf("write round %d: %w", r.N, err)
	}
	return string(text), nil
}

// spec is the work as a scenario's text has it.
func (w Work) spec() *specWorkload {
	return &specWorkload{
		Cards: w.Cards, Workers: w.Workers, Batch: w.Batch, DBTimeoutMS: dbTimeoutMS,
		Seed: w.Seed, Redo: w.Redo, ConnectS: connectS, Rate: rate, Dispatchers: w.Dispatchers, Throttle: throttleRetries,
	}
}

func needsServer(entries []schedule.Entry) bool {
	for _, e := range entries {
		if owner, ok := e.Fault.(faults.ServerOwner); ok && owner.NeedsServer() {
			return true
		}
	}
	return false
}

// expects returns how a run under these faults may come out: any way but hanging,
// with the endings that the faults declare and no others.
func expects(entries []schedule.Entry) faulted {
	f := faulted{
		Outcome: "any", Power: "some",
		// A commit under way is in doubt whenever its session dies.
		Findings: []scenarios.FindingMatch{{Rule: "txn.ambiguous-commit", Count: "any"}},
		// It cannot be kept when the fault is in that session.
		Invariants: map[string]string{"coordinator-session-kept": "any"},
	}
	if len(entries) == 0 {
		f.Outcome, f.Power, f.Invariants = "completes", "all", map[string]string{}
	}
	var rules []string
	for _, e := range entries {
		if declares, ok := e.Fault.(faults.Expecter); ok {
			for _, x := range declares.Expects() {
				rules = append(rules, x.Rule)
			}
		}
	}
	if untold(entries) {
		f.Invariants["ledger-truthful"] = "any"
	}
	if len(entries) > 0 {
		// A dispatcher that gives a batch up kills those of its workers that do not leave at once.
		rules = append(rules, "process.died")
	}
	for _, rule := range unique(rules) {
		f.Endings = append(f.Endings, ending{Rule: rule, Count: "any"})
	}
	return f
}

// untold reports whether faults can keep the subject from writing how a batch
// ended: they take the database as a whole away until they are healed, or they
// keep it from new sessions while another one takes those that it has.
func untold(entries []schedule.Entry) bool {
	for _, e := range entries {
		switch e.Fault.Name() {
		case "network.down", "network.blackhole", "backend.crash", "backend.restart":
			return true
		case "network.refuse", "network.limit-data", "backend.slots", "backend.read-only", "process.descriptors":
			if len(entries) > 1 {
				return true
			}
		}
	}
	return false
}

// after returns what is done once the subject's first process has ended: workers
// that an orphaning left behind go on then, and leave by themselves.
func after(entries []schedule.Entry) []scenarios.Step {
	for _, e := range entries {
		if name := e.Fault.Name(); name == "process.orphan" {
			return []scenarios.Step{{Heal: name}}
		}
	}
	return nil
}

// name is the round's name as a case.
func (r Round) name() string { return fmt.Sprintf("%s-%d", caseName, r.N) }

// scenario returns the round as a runner takes it; the error says that there can be
// no such scenario.
func (r Round) scenario(seed string) (scenarios.Scenario, scenarios.Case, error) {
	text, err := Text(seed, r)
	if err != nil {
		return scenarios.Scenario{}, scenarios.Case{}, err
	}
	return Parse(text)
}

// Parse returns a round's text as what a runner runs.
func Parse(text string) (scenarios.Scenario, scenarios.Case, error) {
	s, err := scenarios.Parse(scenarioName+".yaml", []byte(text))
	if err != nil {
		return s, scenarios.Case{}, fmt.Errorf("a round is no scenario: %w", err)
	}
	s.File = "" // it lies in no file, so there is no place to name
	return s, s.Cases[0], nil
}
