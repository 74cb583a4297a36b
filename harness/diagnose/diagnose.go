package diagnose

import (
	"cmp"
	"slices"

	"deadwire/harness/event"
)

// Report is what the journal of one case says about its sessions.
type Report struct {
	Endings  []Ending  // one for each session that ended, by session number
	Findings []Finding // what is wrong beside the endings
	Sharing  []Sharing // sessions that were seen in more than one process
	Sessions int       // how many sessions were opened, cancel requests left out
}

// Sharing says that a process held a session which another one had opened.
type Sharing struct {
	Session int `json:"session"`
	Opener  int `json:"opener"`
	Holder  int `json:"holder"`
}

// Explain judges the journal of one case. It is pure: the same events give the
// same report.
func Explain(events []event.Event) Report {
	h := fold(events)
	slices.SortStableFunc(h.sessions, func(a, b *session) int { return cmp.Compare(a.number, b.number) })
	report := Report{Sessions: len(h.sessions)}
	for _, s := range h.sessions {
		for _, pid := range s.others() {
			report.Sharing = append(report.Sharing, Sharing{Session: s.number, Opener: s.opener(), Holder: pid})
		}
		if ending, ok := h.ending(s); ok {
			report.Endings = append(report.Endings, ending)
		}
		report.Findings = append(report.Findings, h.findings(s)...)
	}
	report.Findings = append(report.Findings, h.brokenPoolFindings()...)
	report.Findings = append(report.Findings, h.threadsLost()...)
	return report
}

// ending explains how s ended; false while it lives.
func (h *history) ending(s *session) (Ending, bool) {
	signs := s.closings()
	if len(signs) == 0 {
		return Ending{}, false
	}
	first := signs[0]
	e := Ending{
		Session:       s.number,
		Role:          s.role(),
		Opener:        Process{PID: s.opener()},
		HoldersBefore: orEmpty(s.holdersAt(first.At)),
		HoldersAfter:  []int{},
		Manner:        first.Closing.Manner,
		State:         first.Closing.State,
		Certainty:     Inferred,
		Evidence:      []int64{s.front.opened.Seq, first.Seq},
	}
	for _, decide := range []func(*session, []event.Event, *Ending) bool{
		h.byServerCrash, h.byFatal, h.byServerGone, h.byFault, h.byTerminate, h.byGoodbye, h.bySharedTLS, h.byShutdown, h.byExit, h.byVisit, h.byNetwork,
	} {
		if decide(s, signs, &e) {
			break
		}
	}
	e.Software = h.software(s)
	h.finish(&e)
	return e, true
}

// finish fills what follows from the rule, and what is the same for all.
func (h *history) finish(e *Ending) {
	if e.Rule == "" {
		e.Rule, e.Actor.Kind = RuleUnknown, Unknown
	}
	if p := h.processes[e.Actor.PID]; p != nil {
		e.Actor.PPID, e.Actor.Argv = p.ppid, p.argv
	}
	h.cascades(e)
	e.Stack = h.stackOf(e.Actor.PID)
	if rule, ok := Lookup(e.Rule); ok {
		e.Mend = mendFor(e.Rule, e.Software)
		e.Expected = rule.Ordinary
	}
	if p := h.processes[e.Actor.PID]; e.Rule == ruleDied && e.Actor.PID != 0 && (p == nil || p.code == nil || *p.code != 0) {
		e.Expected = false // how it ended needs an explanation of its own
	}
	slices.Sort(e.Evidence)
	e.Evidence = slices.Compact(e.Evidence)
	e.Evidence = slices.DeleteFunc(e.Evidence, func(seq int64) bool { return seq == 0 })
}

// stackOf returns what the user's command said of a process caught in the act.
func (h *history) stackOf(pid int) string {
	for _, e := range h.events {
		if e.Kind == event.ProcessStack && e.PID == pid {
			return e.Step.Note
		}
	}
	return ""
}

func orEmpty(pids []int) []int {
	if pids == nil {
		return []int{}
	}
	return pids
}

func without(pids []int, pid int) []int {
	return slices.DeleteFunc(slices.Clone(pids), func(p int) bool { return p == pid })
}
