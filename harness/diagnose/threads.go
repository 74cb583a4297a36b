package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"deadwire/harness/event"
)

const (
	ruleThreadsLost  = "fork.pool-threads-lost"
	ruleThreadsShare = "process.threads-share"
)

// hungFor is how long a process must have waited so that being asked to end is taken
// for the end of its patience, not for an ordinary stop.
const hungFor = 5 * time.Second

func threadsLostRule() Rule {
	return Rule{
		ID: ruleThreadsLost, Family: "F05",
		Sentence: "A forked process waits for a pool that it inherited: fork copied the pool's data, but not the threads that fill and check it, so nothing ever comes.",
		Tells: "The waiting process has one thread, its parent has more; it connects nowhere and sends nothing, while the server is idle and the parent's sessions are well. " +
			"No capacity is exhausted, and nothing failed before.",
		Mend: "Open the pool after the fork, in the process that will use it, or close it in the parent before each fork; a pool should refuse to be used under another pid than its " +
			"creator's. psycopg_pool: open=False, then open() in the child (gunicorn: post_fork; Celery: worker_process_init).",
	}
}

func threadsShareRule() Rule {
	return Rule{
		ID: ruleThreadsShare, Family: "N1",
		Sentence: "Two threads of one process used one session at the same time; the driver refused the second one.",
		Tells: "Requests by more than one thread of the same pid, and the driver's own words in the program's output (\"another command is already in progress\"). " +
			"The refused request never reaches the wire. Seen only when every send is looked at.",
		Mend: "Give each thread (or task) a session of its own, out of a pool: a session takes one request at a time. A transaction belongs to the session, not to the thread.",
	}
}

// threadsLost finds processes that waited, to a bad end, for threads which fork had
// not copied (family F05): one finding for each.
func (h *history) threadsLost() []Finding {
	var out []Finding
	for i, e := range h.events {
		last := e.Kind == event.ProcessStranded && !slices.ContainsFunc(h.events[i+1:], func(later event.Event) bool {
			return later.Kind == e.Kind && later.PID == e.PID
		})
		if !last || !h.hung(e) {
			continue
		}
		p, session := h.processes[e.PID], h.poolOf(e)
		out = append(out, Finding{
			Rule: ruleThreadsLost, Session: session.number, PIDs: []int{e.PID}, Mend: mend(ruleThreadsLost), Evidence: []int64{session.front.opened.Seq, e.Seq},
			Message: fmt.Sprintf("%s, forked from pid %d, waited for %.1f s or more for another thread of its own and has none: its parent has %d, which fork did not copy; it opened no session and sent nothing, and %s",
				h.name(e.PID), p.ppid, e.Stranded.For.Seconds(), e.Stranded.ParentThreads, p.sayFate()),
		})
	}
	return out
}

// hung reports whether a stranded process was forked from one with a pool, never
// reached the database, and came to a bad end or to none.
func (h *history) hung(e event.Event) bool {
	p := h.processes[e.PID]
	if p == nil || p.execAt != 0 || e.Stranded.ParentThreads < 2 || h.poolOf(e) == nil {
		return false
	}
	reached := slices.ContainsFunc(h.events, func(c event.Event) bool {
		return c.Kind == event.ProcessCalled && c.PID == e.PID && (c.Call.Name == event.CallConnect || c.Call.Name == event.CallSend)
	})
	opened := slices.ContainsFunc(h.sessions, func(s *session) bool { return s.opener() == e.PID })
	if reached || opened {
		return false
	}
	switch {
	case !p.exited, p.crashed(), p.code != nil && *p.code != 0:
		return true
	default:
		return p.signal != "" && e.Stranded.For >= hungFor
	}
}

// poolOf returns a session that the parent of a stranded process had open then, which
// makes it the owner of a pool; nil if it had none.
func (h *history) poolOf(e event.Event) *session {
	for _, s := range h.sessions {
		open := s.front.ended == nil || s.front.ended.Seq > e.Seq
		if s.opener() == h.processes[e.PID].ppid && s.front.opened.Seq < e.Seq && open {
			return s
		}
	}
	return nil
}

func (p *process) sayFate() string {
	if !p.exited {
		return "waits still"
	}
	return "then " + p.sayExit()
}

// refusals are the words in which drivers refuse a request while another one is
// under way on the same session: libpq (and so Ruby's pg and PHP's pgsql), psycopg2
// with a wait callback, asyncpg.
func refusals() []string {
	return []string{"another command is already in progress", "while an asynchronous query is underway", "another operation is in progress"}
}

// threadsShare finds a session which two threads of one process used, one of them
// while it was not its turn (neighbour N1). Taking turns is what pools do.
func (h *history) threadsShare(s *session) (Finding, bool) {
	threads := map[int]map[int]event.Event{}
	for _, c := range s.front.calls {
		if c.Call.Name != event.CallSend || !isRequest(c.Call.Type) {
			continue
		}
		if threads[c.PID] == nil {
			threads[c.PID] = map[int]event.Event{}
		}
		if _, seen := threads[c.PID][c.Call.TID]; !seen {
			threads[c.PID][c.Call.TID] = c
		}
	}
	said := h.refusal(s)
	for pid, of := range threads {
		if len(of) < 2 || said == nil {
			continue
		}
		f := Finding{Rule: ruleThreadsShare, Session: s.number, PIDs: []int{pid}, Mend: mend(ruleThreadsShare), Evidence: []int64{said.Seq}}
		for _, c := range of {
			f.Evidence = append(f.Evidence, c.Seq)
		}
		slices.Sort(f.Evidence)
		f.Message = fmt.Sprintf("%d threads of %s sent requests over one session, and its driver refused one that came while another was under way: «%s»",
			len(of), h.name(pid), clip(strings.TrimSpace(said.Output.Text)))
		return f, true
	}
	return Finding{}, false
}

// refusal returns the first line of output with a driver's refusal while s was open.
func (h *history) refusal(s *session) *event.Event {
	for i, e := range h.events {
		open := e.Seq > s.front.opened.Seq && (s.front.ended == nil || e.At <= s.front.ended.At+exitWindow)
		if e.Kind == event.SubjectOutput && open && slices.ContainsFunc(refusals(), func(words string) bool { return strings.Contains(e.Output.Text, words) }) {
			return &h.events[i]
		}
	}
	return nil
}
