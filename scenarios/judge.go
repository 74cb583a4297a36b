package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"deadwire/faults"
	"deadwire/harness/diagnose"
	"deadwire/harness/event"
	"deadwire/harness/report"
	"deadwire/harness/verdict"
	"deadwire/scenarios/oracle"
)

// judgement compares what happened with what a case expects.
type judgement struct {
	problems   []string           // each makes the case fail
	missing    []string           // evidence without which nothing is proven
	unexpected []diagnose.Finding // promises broken against expectation
}

// judge is pure: the same expectation and facts give the same judgement. It
// marks the endings that were expected.
func judge(e Expect, r result) judgement {
	var j judgement
	j.outcome(e, r)
	j.endings(e, r)
	j.findings(e, r)
	j.promises(e, r)
	j.ledger(e, r)
	j.serverLog(e, r)
	j.rows(e, r)
	j.output(e, r)
	j.steps(r)
	j.power(e, r)
	return j
}

func (j *judgement) problem(format string, args ...any) {
	j.problems = append(j.problems, fmt.Sprintf(format, args...))
}

func (j *judgement) outcome(e Expect, r result) {
	if r.outcome != e.Outcome && (e.Outcome != outcomeAny || r.outcome == outcomeHangs) {
		was := fmt.Sprintf("the subject %s (%s)", r.outcome, r.exit)
		if r.outcome == outcomeHangs {
			was = fmt.Sprintf("the subject did not end within %s", r.limit)
		}
		j.problem("%s, expected: %s", was, e.Outcome)
	}
	if e.Error == "" {
		return
	}
	// Compiled when the scenario was loaded.
	if pattern := regexp.MustCompile(e.Error); !pattern.MatchString(strings.Join(r.errorLines(), "\n")) {
		j.problem("its error output does not match %q; its last words: %q", e.Error, r.lastWords())
	}
}

func (j *judgement) endings(e Expect, r result) {
	counts := make([]int, len(e.Endings))
	for n := range r.report.Endings {
		ending := &r.report.Endings[n]
		matched := false
		for k, m := range e.Endings {
			if m.matches(*ending, r) {
				counts[k]++
				matched = true
			}
		}
		ending.Expected = ending.Expected || matched
		if !ending.Expected {
			j.problem("unexpected ending of session %d (%s): %s: %s", ending.Session, ending.Role, ending.Rule, ending.Message)
		}
	}
	for k, m := range e.Endings {
		if !countFits(m.Count, counts[k]) {
			j.problem("expected %s ending %s of %s, seen %d", orWord(m.Count, "one"), m.Rule, orWord(m.Session, "any session"), counts[k])
		}
	}
	j.senders(r)
}

// senders checks each accused inheritor against the subject's own confession.
func (j *judgement) senders(r result) {
	var confessed []int
	for _, i := range r.faults {
		if i.Name == "fork" {
			confessed = append(confessed, i.bitten(r.events)...)
		}
	}
	for _, e := range r.report.Endings {
		if e.Actor.Kind == diagnose.Inheritor && len(confessed) > 0 && !slices.Contains(confessed, e.Actor.PID) {
			j.problem("session %d: pid %d is accused, but the act was done by %v", e.Session, e.Actor.PID, confessed)
		}
	}
}

func (m EndingMatch) matches(e diagnose.Ending, r result) bool {
	if m.Rule != e.Rule || (m.Session != "" && !faults.RoleMatches(m.Session, e.Role)) {
		return false
	}
	// Without the exact witness the sender stays unknown, and nobody may be accused.
	if m.Actor != "" && m.Actor != string(e.Actor.Kind) && (r.exact || e.Actor.Kind != diagnose.Unknown) {
		return false
	}
	return (m.Manner == "" || m.Manner == e.Manner) &&
		(m.State == "" || m.State == e.State) &&
		(m.SQLState == "" || m.SQLState == e.SQLState) &&
		(m.Certainty == "" || m.Certainty == string(e.Certainty))
}

func countFits(want string, got int) bool {
	switch want {
	case "any":
		return true
	case "some":
		return got > 0
	default:
		return got == 1
	}
}

func (j *judgement) findings(e Expect, r result) {
	counts := make([]int, len(e.Findings))
	for _, f := range r.report.Findings {
		matched := false
		for k, m := range e.Findings {
			if m.Rule == f.Rule && faults.RoleMatches(m.Session, r.roleOf(f.Session)) {
				counts[k]++
				matched = true
			}
		}
		if !matched {
			j.problem("unexpected finding %s: %s", f.Rule, f.Message)
		}
	}
	for k, m := range e.Findings {
		if !countFits(m.Count, counts[k]) {
			j.problem("expected %s finding %s of %s, seen %d", orWord(m.Count, "one"), m.Rule, orWord(m.Session, "any session"), counts[k])
		}
	}
}

func (r result) roleOf(session int) string {
	for _, e := range r.events {
		if e.Kind == event.SessionNamed && e.Session == (event.SessionID{Place: event.Front, N: session}) {
			return e.Named.ApplicationName
		}
	}
	return ""
}

func (j *judgement) promises(e Expect, r result) {
	for _, name := range promiseNames() {
		i := slices.IndexFunc(r.broken, func(f diagnose.Finding) bool { return f.Invariant == name })
		if e.Invariants[name] == "any" {
			continue
		}
		switch expectBroken := e.Invariants[name] == "broken"; {
		case i >= 0 && !expectBroken:
			j.problem("%s", r.broken[i].Message)
			j.unexpected = append(j.unexpected, r.broken[i])
		case i < 0 && expectBroken:
			j.problem("%s was expected to be broken, and was kept", name)
		}
	}
}

func (j *judgement) ledger(e Expect, r result) {
	counts := map[string]int{}
	for _, row := range r.snapshot.Ledger {
		counts[row.Status]++
	}
	for _, status := range []string{"running", "completed", "failed"} {
		if want, stated := e.Ledger[status]; stated && counts[status] != want {
			j.problem("the ledger has %d rows %s, expected %d", counts[status], strings.ToUpper(status), want)
		}
	}
}

// serverLog checks that the server said nothing about the ends of sessions that
// were not ended by it.
func (j *judgement) serverLog(e Expect, r result) {
	if e.ServerLog != "silent" {
		return
	}
	for _, log := range r.events {
		if log.Kind != event.ServerLogged || log.Log.Severity == "LOG" {
			continue
		}
		for _, named := range r.events {
			if named.Kind == event.SessionNamed && named.Named.BackendPID == log.PID {
				j.problem("the server's log is not silent: backend %d: %s: %s", log.PID, log.Log.Severity, log.Log.Text)
				return
			}
		}
	}
}

func (j *judgement) steps(r result) {
	for _, e := range r.events {
		if e.Kind == event.DatabaseFact && e.Step.Note != "as awaited" {
			j.problem("%s: %s", e.Step.Name, e.Step.Note)
		}
	}
}

// power notes each fault that was not seen to act: without it a good outcome
// proves nothing. Where some power is enough, it is one that acted.
func (j *judgement) power(e Expect, r result) {
	defer func() {
		if slices.ContainsFunc(r.events, func(e event.Event) bool { return e.Kind == event.JournalFull }) {
			j.missing = append(j.missing, "the journal was full: events are missing")
		}
	}()
	if e.Power == "some" && slices.ContainsFunc(r.faults, func(f faultFact) bool { return f.bit(r.events) }) {
		return
	}
	for _, i := range r.faults {
		if i.bit(r.events) {
			continue
		}
		why := "it was injected, but nothing shows that it acted"
		if i.Err != "" {
			why = i.Err
		}
		j.missing = append(j.missing, fmt.Sprintf("fault %s did not bite: %s; %s", i.Name, why, seen(r.events)))
	}
}

// compare notes where the tables differ from those of the fault-free run.
func (j *judgement) compare(got, want oracle.Snapshot) {
	for _, f := range oracle.Converged(got, want) {
		j.problems = append(j.problems, f.Message)
		j.unexpected = append(j.unexpected, f)
	}
}

// resumed takes in the judgement of the attempt that went on with the work.
func (j *judgement) resumed(again judgement, after result, out *report.Case) {
	out.Findings = append(out.Findings, again.unexpected...)
	if len(again.problems) > 0 {
		out.Error = after.lastWords()
	}
	for _, p := range again.problems {
		j.problems = append(j.problems, "resume: "+p)
	}
}

func (j judgement) fill(out *report.Case) {
	switch {
	case len(j.problems) > 0:
		// What is missing is said too: a fault that did not act often explains the rest.
		out.Verdict, out.Problems = verdict.Fail, slices.Concat(j.problems, j.missing)
	case len(j.missing) > 0:
		out.Verdict, out.Problems = verdict.Undetermined, j.missing
	default:
		out.Verdict = verdict.Pass
	}
	out.Reason = strings.Join(out.Problems, "; ")
}

func promiseNames() []string {
	var names []string
	for _, p := range oracle.Promises() {
		names = append(names, p.Name)
	}
	return names
}

func orWord(word, otherwise string) string {
	if word == "" {
		return otherwise
	}
	return word
}
