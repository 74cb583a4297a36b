package oracle

import (
	"fmt"
	"slices"
	"strings"

	"deadwire/harness/diagnose"
	"deadwire/harness/event"
)

// Input is what the promises are judged on.
type Input struct {
	Snapshot Snapshot
	Earlier  *Snapshot // what an earlier run had left, nil for the first
	Events   []event.Event
	Report   diagnose.Report
	// Completed: the subject said that its work is done (exit code 0).
	Completed bool
	// Killed: the subject's first process was ended by a signal, so it could not
	// tidy up after itself.
	Killed bool
	// Workers is how many worker processes the subject was given, in all.
	Workers int
	// Dispatchers is how many dispatchers worked at once; 0 counts as one.
	Dispatchers int
	// Paced: each dispatcher has a session more, by which fetches are paced.
	Paced bool
	// ProcessesLeft are pids of the subject that lived on after its end.
	ProcessesLeft []int
}

// Promise is one named guarantee.
type Promise struct {
	Name     string
	Sentence string
	// Breaches returns what breaks the promise, each in a few words.
	Breaches func(Input) []string
}

// Promises returns every promise, in the order of reports. Numbers in comments
// are those of the pipeline's list of invariants.
func Promises() []Promise {
	return []Promise{
		{"ledger-truthful", "the ledger says what became of each batch", ledgerTruthful},                                              // 15-18, 20
		{"coordinator-session-kept", "the coordinator's one session lives from before its workers until after them", coordinatorKept}, // 22, 24
		{"evidence-unique", "a card has one evidence row for each content hash, and only when it has a hash", evidenceUnique},         // 1, 3
		{"votes-unique", "an agent says one thing about a card, once", votesUnique},                                                   // 2, 10
		{"votes-kept", "a vote stays until another one takes its place", votesKept},                                                   // 8, 9
		{"votes-on-evidence", "every machine vote rests on evidence", votesOnEvidence},                                                // 14
		{"run-named", "everything that a machine wrote names its run", runNamed},                                                      // 11
		{"machines-never-resolve", "no status changes without a person's vote", machinesNeverResolve},                                 // 5, 6
		{"nothing-lost", "when the work is said to be done, every card that can be read was read", nothingLost},                       // 8, 47
		{"sessions-bounded", "a dispatch has one work, one slot and one session for each worker", sessionsBounded},                    // 26
		{"slot-apart", "each batch holds its slot on a session of its own", slotApart},                                                // 26, 32
		{"no-session-left", "at rest the server has no session of the subject", noSessionLeft},                                        // 25
		{"no-lock-left", "at rest no advisory lock is held", noLockLeft},                                                              // 25, 31
		{"no-process-left", "at rest no process of the subject is left", noProcessLeft},                                               // 29
	}
}

// Judge returns the findings of all promises that in breaks.
func Judge(in Input) []diagnose.Finding {
	var findings []diagnose.Finding
	for _, p := range Promises() {
		if breaches := p.Breaches(in); len(breaches) > 0 {
			findings = append(findings, diagnose.Finding{
				Invariant: p.Name,
				Message:   p.Sentence + ": " + shorten(breaches),
			})
		}
	}
	return findings
}

const breachesShown = 3

func shorten(breaches []string) string {
	if len(breaches) <= breachesShown {
		return strings.Join(breaches, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(breaches[:breachesShown], "; "), len(breaches)-breachesShown)
}

func ledgerTruthful(in Input) []string {
	var out []string
	for _, e := range in.Snapshot.Ledger {
		switch {
		case e.Status == "running" && !in.Killed && !in.knownRunning(e.RunID):
			out = append(out, e.RunID+" still says RUNNING although its process ended in order")
		case e.Status == "completed" && (!e.Finished || !e.Elapsed):
			out = append(out, e.RunID+" is COMPLETED without end or counters")
		case e.Status == "failed" && (!e.Finished || e.Reason == ""):
			out = append(out, e.RunID+" is FAILED without end or reason")
		}
	}
	return out
}

// knownRunning reports whether an earlier run had left that row: only a reaper
// could mend it, and no later run may be blamed for it.
func (in Input) knownRunning(runID string) bool {
	return in.Earlier != nil && slices.ContainsFunc(in.Earlier.Ledger, func(e Entry) bool {
		return e.RunID == runID && e.Status == "running"
	})
}

func coordinatorKept(in Input) []string {
	var out []string
	for _, e := range in.Report.Endings {
		if e.Role != "coordinator" {
			continue
		}
		switch {
		case e.Rule == "close.ordinary" && in.Dispatchers < 2 && workersLater(in, e.Session): // a worker's session does not say whose it is
			out = append(out, fmt.Sprintf("session %d was closed before the workers' sessions", e.Session))
		case e.Rule != "close.ordinary" && !in.Killed:
			out = append(out, fmt.Sprintf("session %d ended by %s", e.Session, e.Rule))
		}
	}
	return out
}

// workersLater reports whether a worker's session was opened after the
// coordinator's session had begun to end.
func workersLater(in Input, number int) bool {
	closed := false
	for _, e := range in.Events {
		switch {
		case e.Kind == event.SessionClosing && e.Session == (event.SessionID{Place: event.Front, N: number}):
			closed = true
		case closed && e.Kind == event.SessionNamed && e.Session.Place == event.Front && strings.Contains(e.Named.ApplicationName, "/worker-"):
			return true
		}
	}
	return false
}

func evidenceUnique(in Input) []string {
	hashed := map[string]bool{}
	for _, c := range in.Snapshot.Cards {
		hashed[c.Identifier] = c.Hashed
	}
	var out []string
	seen := map[string]bool{}
	for _, e := range in.Snapshot.Evidence {
		key := fmt.Sprintf("%s/%d", e.Card, e.Hash)
		if seen[key] {
			out = append(out, "two rows for "+key)
		}
		if !hashed[e.Card] {
			out = append(out, "evidence for a card without a hash: "+e.Card)
		}
		seen[key] = true
	}
	return out
}

func votesUnique(in Input) []string {
	var out []string
	seen := map[string]bool{}
	for _, v := range in.Snapshot.Votes {
		key := v.Card + " by " + v.Agent
		if seen[key] {
			out = append(out, "two votes on "+key)
		}
		if (v.Printing != "") == v.NoMatch {
			out = append(out, "both or neither of printing and no-match on "+key)
		}
		seen[key] = true
	}
	return out
}

func votesOnEvidence(in Input) []string {
	have := map[string]bool{}
	for _, e := range in.Snapshot.Evidence {
		have[e.Card] = true
	}
	var out []string
	for _, v := range in.Snapshot.Votes {
		if (v.Source == "ocr" || v.Source == "deduction") && !have[v.Card] {
			out = append(out, v.Agent+" voted on "+v.Card+", which has no evidence")
		}
	}
	return out
}

func runNamed(in Input) []string {
	var out []string
	for _, e := range in.Snapshot.Evidence {
		if e.RunID == "" {
			out = append(out, "evidence of "+e.Card)
		}
	}
	for _, v := range in.Snapshot.Votes {
		if v.RunID == "" && (v.Source == "ocr" || v.Source == "deduction") {
			out = append(out, "vote on "+v.Card)
		}
	}
	for _, s := range in.Snapshot.Scans {
		if s.RunID == "" {
			out = append(out, "scan of "+s.Card)
		}
	}
	return out
}

func machinesNeverResolve(in Input) []string {
	human := map[string]bool{}
	for _, v := range in.Snapshot.Votes {
		if v.Source == "user" || v.Source == "admin" {
			human[v.Card] = true
		}
	}
	var out []string
	for _, c := range in.Snapshot.Cards {
		if c.Status != "unresolved" && !human[c.Identifier] {
			out = append(out, c.Identifier+" is "+c.Status)
		}
	}
	return out
}

func nothingLost(in Input) []string {
	if !in.Completed {
		return nil // the subject did not say that the work is done
	}
	seen := map[string]bool{}
	for _, e := range in.Snapshot.Evidence {
		seen[e.Card] = true
	}
	for _, s := range in.Snapshot.Scans {
		seen[s.Card] = true
	}
	var out []string
	for _, c := range in.Snapshot.Cards {
		if c.Hashed && !seen[c.Identifier] {
			out = append(out, c.Identifier+" has neither evidence nor a named skip")
		}
	}
	return out
}

// sessionsSpare is what a run may have open beside its workers: the
// coordinator's, the slot's, and one that records a failure.
const sessionsSpare = 3

func sessionsBounded(in Input) []string {
	open, most := map[event.SessionID]bool{}, 0
	for _, e := range in.Events {
		if e.Session.Place != event.Front {
			continue
		}
		switch e.Kind {
		case event.SessionNamed:
			open[e.Session] = true
		case event.SessionClosing:
			delete(open, e.Session)
		default:
		}
		most = max(most, len(open))
	}
	each := sessionsSpare
	if in.Paced {
		each++
	}
	if bound := in.Workers + each*max(in.Dispatchers, 1); in.Workers > 0 && most > bound {
		return []string{fmt.Sprintf("%d sessions were open at once, the bound is %d", most, bound)}
	}
	return nil
}

func noSessionLeft(in Input) []string {
	var out []string
	for _, s := range in.Snapshot.Sessions {
		out = append(out, fmt.Sprintf("backend %d (%s, %s)", s.PID, s.ApplicationName, s.State))
	}
	return out
}

func noLockLeft(in Input) []string {
	var out []string
	for _, l := range in.Snapshot.Locks {
		out = append(out, fmt.Sprintf("backend %d holds %#x/%d", l.PID, l.Class, l.Key))
	}
	return out
}

func noProcessLeft(in Input) []string {
	var out []string
	for _, pid := range slices.Sorted(slices.Values(in.ProcessesLeft)) {
		out = append(out, fmt.Sprintf("pid %d", pid))
	}
	return out
}
