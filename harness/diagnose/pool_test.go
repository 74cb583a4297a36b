package diagnose_test

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/harness/diagnose"
	"deadwire/harness/event"
)

func (j *journal) asked(pid int) *journal {
	return j.add(event.Event{Kind: event.ProcessExited, PID: pid, Process: &event.Process{Signal: "SIGTERM"}})
}

// pool starts a parent with two workers, of which one has session 1.
func pool() *journal {
	return (&journal{}).started(opener, 1).started(child, opener).started(sibling, opener).open(1, child)
}

// poolJournals are those of process pools, by name.
func poolJournals() map[string]func() []event.Event {
	return map[string]func() []event.Event{
		"broken pool": func() []event.Event {
			return pool().killed(sibling).subjectEnds(event.FIN).asked(child).later(time.Second).exited(opener, 1).events
		},
		"broken pool, reported out of order": func() []event.Event {
			return pool().subjectEnds(event.FIN).asked(child).killed(sibling).exited(opener, 1).events
		},
		"workers killed one by one": func() []event.Event {
			return pool().killed(sibling).later(time.Minute).subjectEnds(event.FIN).asked(child).events
		},
		"pool ended with its parent": func() []event.Event {
			return pool().killed(opener).killed(sibling).subjectEnds(event.FIN).asked(child).events
		},
	}
}

func TestEndingsOfABrokenPoolPointToTheFirstDeath(t *testing.T) {
	t.Parallel()
	report := diagnose.Explain(poolJournals()["broken pool"]())
	assert.Equal(t, len(report.Endings), 1)
	assert.Equal(t, report.Endings[0].Rule, "process.died")
	assert.Equal(t, report.Endings[0].Actor.PID, child)
	assert.Assert(t, strings.Contains(report.Endings[0].Message, "a consequence: pid 21 was killed by SIGKILL before"), report.Endings[0].Message)
	assert.Equal(t, len(report.Findings), 1)
	assert.DeepEqual(t, report.Findings[0].PIDs, []int{opener, child, sibling})
}
