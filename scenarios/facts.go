package scenarios

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"deadwire/harness/diagnose"
	"deadwire/harness/event"
	"deadwire/harness/rundir"
	"deadwire/harness/subject"
	"deadwire/scenarios/oracle"
)

// The files of an attempt beside its journal.
const (
	factsName    = "facts.json"
	snapshotName = "snapshot.json"
	resumeName   = "resume" // folder of the attempt that went on with the work
)

// FactsSchema is the schema of facts.json.
const FactsSchema = "deadwire.facts/1"

// storedFacts are what an attempt is judged on beside its journal and its snapshot, and
// what it was judged against. Fields may be added, never changed in meaning.
type storedFacts struct {
	Schema    string      `json:"schema"`
	Expect    Expect      `json:"expect"`
	Outcome   string      `json:"outcome"`
	Lagging   bool        `json:"lagging,omitempty"` // a dispatcher beside the first did not complete
	ExitCode  int         `json:"exit_code"`         // -1 when a signal ended the subject
	Signal    int         `json:"signal,omitempty"`  // that signal's number
	Exact     bool        `json:"exact"`             // the exact witness was at work
	LimitMS   int64       `json:"limit_ms"`          // how long the subject might take
	Workers   int         `json:"workers,omitempty"`
	Beside    int         `json:"beside,omitempty"`         // dispatchers beside the first
	Paced     bool        `json:"paced,omitempty"`          // fetches were paced over a session
	Left      []int       `json:"processes_left,omitempty"` // pids that lived on after the subject's end
	Faults    []faultFact `json:"faults,omitempty"`
	LastEvent int64       `json:"last_event"`          // what the journal holds beyond it came after the judgement
	Reference string      `json:"reference,omitempty"` // folder of the fault-free run, relative to the run's
}

// faultFact is one fault as it stood when the attempt was over.
type faultFact struct {
	ID   string `json:"id"` // as the journal has it
	Name string `json:"name"`
	Err  string `json:"error,omitempty"` // why it was not injected
}

// bit reports whether the fault was seen to act.
func (f faultFact) bit(events []event.Event) bool {
	return slices.ContainsFunc(events, func(e event.Event) bool { return e.Kind == event.FaultBit && e.Fault.ID == f.ID })
}

// bitten returns the processes on which the fault was seen to act.
func (f faultFact) bitten(events []event.Event) []int {
	var pids []int
	for _, e := range events {
		if e.Kind == event.FaultBit && e.Fault.ID == f.ID && e.PID != 0 {
			pids = append(pids, e.PID)
		}
	}
	return pids
}

// fact returns what there is to say about an injection once it is over.
func (i injection) fact() faultFact {
	i.state.mu.Lock()
	defer i.state.mu.Unlock()
	f := faultFact{ID: i.target.ID, Name: i.step.Fault.Name()}
	if i.state.err != nil {
		f.Err = i.state.err.Error()
	}
	return f
}

// input is what the promises are judged on.
func (r result) input(earlier *oracle.Snapshot) oracle.Input {
	return oracle.Input{
		Snapshot: r.snapshot, Earlier: earlier, Events: r.events, Report: r.report,
		Completed: r.outcome == outcomeCompletes && !r.lagging, Killed: r.outcome == outcomeKilled,
		ProcessesLeft: r.left, Workers: r.workers, Dispatchers: 1 + r.beside, Paced: r.paced,
	}
}

// explain derives from the facts what rules and promises say about them.
func (r *result) explain(earlier *oracle.Snapshot) {
	r.report = diagnose.Explain(r.events)
	r.broken = oracle.Judge(r.input(earlier))
}

// keepFacts writes what recheck needs beside the journal and the snapshot.
func keepFacts(dir string, e Expect, r result, reference string) error {
	f := storedFacts{
		Schema: FactsSchema, Expect: e, Outcome: r.outcome, ExitCode: r.exit.Code, Signal: int(r.exit.Signal), Exact: r.exact,
		LimitMS: r.limit.Milliseconds(), Workers: r.workers, Left: r.left, Faults: r.faults, Reference: reference,
		Beside: r.beside, Paced: r.paced, Lagging: r.lagging,
	}
	if n := len(r.events); n > 0 {
		f.LastEvent = r.events[n-1].Seq
	}
	if err := rundir.WriteJSON(filepath.Join(dir, factsName), f); err != nil {
		return fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	return nil
}

// ErrNoFacts says that a case ended before it could be judged, or that a version
// without facts.json stored it.
var ErrNoFacts = errors.New("no facts were stored: the case was never judged, or by a version that kept none")

// readFacts reads an attempt back as it was when it was judged.
func readFacts(dir string, earlier *oracle.Snapshot) (f storedFacts, r result, err error) {
	if err := rundir.ReadJSON(filepath.Join(dir, factsName), &f); errors.Is(err, fs.ErrNotExist) {
		return f, r, ErrNoFacts
	} else if err != nil {
		return f, r, err
	}
	if err := rundir.CheckSchema(filepath.Join(dir, factsName), f.Schema, FactsSchema); err != nil {
		return f, r, err
	}
	events, err := rundir.ReadEvents(dir)
	if err != nil {
		return f, r, err
	}
	r = result{
		outcome: f.Outcome, exit: subject.Exit{Code: f.ExitCode, Signal: syscall.Signal(f.Signal)}, exact: f.Exact,
		faults: f.Faults, limit: time.Duration(f.LimitMS) * time.Millisecond, left: f.Left, workers: f.Workers,
		beside: f.Beside, paced: f.Paced, lagging: f.Lagging,
		events: slices.DeleteFunc(events, func(e event.Event) bool { return e.Seq > f.LastEvent }),
	}
	if err := rundir.ReadJSON(filepath.Join(dir, snapshotName), &r.snapshot); err != nil {
		return f, r, err
	}
	r.explain(earlier)
	return f, r, nil
}
