package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"deadwire/faults"
	"deadwire/harness"
	"deadwire/harness/diagnose"
	"deadwire/harness/event"
	"deadwire/harness/report"
	"deadwire/harness/verdict"
	"deadwire/harness/witness"
)

// limits of a user's stack command
const (
	// stackHold is how long the accused stands still for it. A debugger that has to
	// stop the process gets it the moment it goes on, still in the same call.
	stackHold = 5 * time.Second
	// stackMax bounds the command itself.
	stackMax      = 30 * time.Second
	stackBytesMax = 64 << 10
)

// decide answers for a call of the program that may end a session: it takes the
// stack of a process caught in the act, and suppresses the act if that is wanted.
func (e *execution) decide(lane *harness.Lane, t trial, q witness.Question) witness.Decision {
	accused := witness.Guard(q) == witness.Suppress
	if accused && e.flags.stack != "" && !t.second {
		e.takeStack(lane, q)
	}
	if accused && t.guard {
		return witness.Suppress
	}
	return witness.Proceed
}

// takeStack runs the user's command on the accused and records what it says.
func (e *execution) takeStack(lane *harness.Lane, q witness.Question) {
	ctx, cancel := context.WithTimeout(context.Background(), stackMax)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		command := strings.ReplaceAll(e.flags.stack, "{pid}", strconv.Itoa(q.PID))
		out, err := exec.CommandContext(ctx, "/bin/sh", "-c", command).CombinedOutput()
		text := strings.TrimSpace(string(out[:min(len(out), stackBytesMax)]))
		if err != nil {
			text = strings.TrimSpace(text + "\n" + command + ": " + err.Error())
		}
		lane.Journal.Record(event.Event{
			Kind: event.ProcessStack, PID: q.PID, Session: q.Session, Step: &event.Step{Name: command, Note: text},
		})
	}()
	select {
	case <-done:
	case <-time.After(stackHold):
	}
}

// judge turns what was seen into the one case of the report.
func (e *execution) judge(x executed) report.Case {
	c := report.Case{
		Name: report.Name{Scenario: execName, Case: filepath.Base(e.argv[0])}, Verdict: verdict.Pass,
		Outcome: report.Completes, Endings: x.report.Endings, Findings: x.report.Findings, Faults: x.faults,
	}
	if rel, err := filepath.Rel(e.session.dir.Path(), x.dir); err == nil {
		c.Dir = rel
	}
	if x.failed() {
		c.Outcome, c.Error = report.Fails, x.lastLine
	}
	for n := range c.Endings {
		c.Endings[n].Expected = c.Endings[n].Expected || e.declared(c.Endings[n])
	}
	switch {
	case len(c.Findings)+len(c.Unexpected()) > 0:
		c.Verdict = verdict.Fail
	case x.report.Sessions == 0:
		c.Verdict, c.Reason = verdict.Undetermined, "no session came by the tap: the program opened none, or connects to an address that it does not take from its environment (name it with --redirect HOST:PORT)"
	case len(x.idle) > 0:
		c.Verdict, c.Reason = verdict.Undetermined, "did not act: "+strings.Join(x.idle, ", ")
	case slices.ContainsFunc(x.events, func(e event.Event) bool { return e.Kind == event.JournalFull }):
		c.Verdict, c.Reason = verdict.Undetermined, "the journal was full: what came after is not judged"
	}
	return c
}

func (x executed) failed() bool { return x.exit.Code != 0 || x.exit.Signal != 0 }

// code is what a shell would say of the program's end.
func (x executed) code() int {
	const signalled = 128
	if x.exit.Signal != 0 {
		return signalled + int(x.exit.Signal)
	}
	return x.exit.Code
}

// declared reports whether one of the faults said that it would cause this ending.
func (e *execution) declared(ending diagnose.Ending) bool {
	for _, step := range e.steps {
		expecter, ok := step.Fault.(faults.Expecter)
		if !ok || ending.Actor.Kind != diagnose.Fault && ending.Actor.Kind != diagnose.Server {
			continue
		}
		for _, x := range expecter.Expects() {
			if x.Rule == ending.Rule && faults.RoleMatches(x.Role, ending.Role) {
				return true
			}
		}
	}
	return false
}

const inherited = "fork.inherited-terminate"

// prove runs the program again with only the accused act suppressed, if an act
// was accused.
func (e *execution) prove(ctx context.Context, first executed) (*report.Proof, error) {
	accused := slices.IndexFunc(first.report.Endings, func(x diagnose.Ending) bool { return x.Rule == inherited })
	if accused < 0 {
		fmt.Fprintln(os.Stderr, "deadwire: nobody is accused of ending another's session, so there is nothing to prove")
		return nil, nil
	}
	fmt.Fprintln(os.Stderr, "deadwire: proof: running again with only the accused act suppressed")
	second, err := e.do(ctx, trial{name: "proof", guard: true, second: true})
	if err != nil {
		return nil, fmt.Errorf("prove: %w", err)
	}
	p := &report.Proof{Suppressed: report.Act(first.report.Endings[accused]), Outcome: report.Completes}
	if second.failed() {
		p.Outcome, p.Error = report.Fails, second.lastLine
	}
	again := slices.ContainsFunc(second.report.Endings, func(x diagnose.Ending) bool { return x.Rule == inherited })
	p.Proven = !again && !second.failed() && slices.ContainsFunc(second.events, suppressed)
	return p, nil
}

// suppressed reports whether an event is of an act that was kept from the server.
func suppressed(e event.Event) bool {
	return e.Call != nil && e.Call.Blocked ||
		e.Message != nil && e.Message.Dropped && e.Message.Type == "Terminate"
}

// report puts the whole of exec's answer together.
func (e *execution) report(c report.Case, x executed, took time.Duration) report.Exec {
	s := e.session
	c.DurationMS, c.Again = took.Milliseconds(), execAgain()
	run := report.Summarise(report.Plan{Version: Version, Seed: s.seed, Dir: s.dir.Path(), Postgres: s.postgres()}, []report.Case{c})
	run.Schema, run.DurationMS = report.ExecSchema, took.Milliseconds()
	out := report.Exec{Run: run, Command: e.argv, ExitCode: x.code(), Sessions: x.report.Sessions, Note: e.flags.note}
	out.Witness = e.flags.witness
	if !x.exact && out.Witness == witness.Exact {
		out.Witness = witness.Holders
	}
	out.Sharing = []report.Sharing{} // a list in JSON, also without an entry
	for _, shared := range x.report.Sharing {
		out.Sharing = append(out.Sharing, report.Sharing(shared))
	}
	if len(out.Sharing) > 0 && x.exact && !e.flags.every && !accused(c) {
		out.Missing = append(out.Missing, "who asks over a shared session: only sends that can end one were looked at; --every-send looks at all")
	}
	for _, e := range x.events {
		if e.Kind == event.WitnessFailed && e.Step != nil {
			out.Missing = append(out.Missing, e.Step.Name+": "+e.Step.Note)
		}
	}
	return out
}

// accused reports whether somebody is blamed for what became of a shared session.
func accused(c report.Case) bool {
	return slices.ContainsFunc(c.Findings, func(f diagnose.Finding) bool { return strings.HasPrefix(f.Rule, "fork.") }) ||
		slices.ContainsFunc(c.Endings, func(x diagnose.Ending) bool { return strings.HasPrefix(x.Rule, "fork.") && x.Actor.PID != 0 })
}

// bitten returns the names of the faults that were seen to act, and of those that
// were not.
func (i *injector) bitten() (acted, idle []string) {
	seen := map[string]bool{}
	for _, e := range i.journal.Events() {
		if e.Kind == event.FaultBit {
			seen[e.Fault.ID] = true
		}
	}
	for n, step := range i.steps {
		into := &idle
		if seen[i.targets[n].ID] {
			into = &acted
		}
		if name := step.Fault.Name(); !slices.Contains(*into, name) {
			*into = append(*into, name)
		}
	}
	return acted, idle
}
