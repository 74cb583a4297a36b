package diagnose

import (
	"fmt"
	"slices"
	"time"

	"deadwire/harness/event"
)

const ruleBrokenPool = "process.broken-pool"

const (
	// breakWindow is how soon a pool ends its other workers once one has died.
	breakWindow = 10 * time.Second
	// exitOrder is how far the reports of exits may be out of order.
	exitOrder = time.Second
)

// brokenPool is a pool of processes that gave up because one of its workers died.
type brokenPool struct {
	parent, first *process
	others        []*process // that were asked to end
}

// brokenPools finds the parents that, living on after a child was killed, ended its
// siblings with SIGTERM (neighbour N2): Python's ProcessPoolExecutor does that, and
// refuses all further work.
func (h *history) brokenPools() []brokenPool {
	var pools []brokenPool
	for _, e := range h.events {
		first := h.processes[e.PID]
		if e.Kind != event.ProcessExited || first == nil || first.exitSeq != e.Seq || !first.crashed() {
			continue
		}
		parent := h.processes[first.ppid]
		known := slices.ContainsFunc(pools, func(p brokenPool) bool { return p.parent == parent })
		if parent == nil || parent.exitAt < first.exitAt || known {
			continue
		}
		if others := h.endedAfter(first); len(others) > 0 {
			pools = append(pools, brokenPool{parent: parent, first: first, others: others})
		}
	}
	return pools
}

// crashed reports whether a process was ended by a signal that does not ask it to.
func (p *process) crashed() bool {
	return p.signal != "" && !slices.Contains([]string{"SIGTERM", "SIGINT", "SIGHUP", "SIGPIPE"}, p.signal)
}

// endedAfter returns the siblings that SIGTERM ended soon after first, by pid.
func (h *history) endedAfter(first *process) []*process {
	var others []*process
	for _, p := range h.processes {
		soon := p.exited && p.exitAt >= first.exitAt-exitOrder && p.exitAt-first.exitAt <= breakWindow
		if p != first && p.ppid == first.ppid && p.signal == "SIGTERM" && soon {
			others = append(others, p)
		}
	}
	slices.SortFunc(others, func(a, b *process) int { return a.pid - b.pid })
	return others
}

// brokenPoolFindings says which pools gave up, and on whose account.
func (h *history) brokenPoolFindings() []Finding {
	var out []Finding
	for _, pool := range h.brokenPools() {
		f := Finding{
			Rule: ruleBrokenPool, PIDs: []int{pool.first.pid, pool.parent.pid}, Mend: mend(ruleBrokenPool),
			Evidence: []int64{pool.first.exitSeq},
		}
		for _, p := range pool.others {
			f.PIDs = append(f.PIDs, p.pid)
			f.Evidence = append(f.Evidence, p.exitSeq)
		}
		slices.Sort(f.PIDs)
		slices.Sort(f.Evidence)
		f.Message = fmt.Sprintf("%s %s, whereupon its parent, %s, ended its %d other workers: their sessions closed for no reason of their own",
			h.name(pool.first.pid), pool.first.sayExit(), h.name(pool.parent.pid), len(pool.others))
		out = append(out, f)
	}
	return out
}

// cascades points an ending that only followed from another to the first one.
func (h *history) cascades(e *Ending) {
	if e.Rule != ruleDied {
		return
	}
	for _, pool := range h.brokenPools() {
		for _, p := range pool.others {
			if p.pid == e.Actor.PID {
				e.Message += fmt.Sprintf("; a consequence: pid %d %s before, and its pool gave up", pool.first.pid, pool.first.sayExit())
				e.Evidence = append(e.Evidence, pool.first.exitSeq)
			}
		}
	}
}
