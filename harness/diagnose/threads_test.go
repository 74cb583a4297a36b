package diagnose_test

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/harness/diagnose"
	"deadwire/harness/event"
)

// stranded lets a child, forked from the opener, wait for a thread that it has not.
func (j *journal) stranded(pid int, lasted time.Duration) *journal {
	return j.later(lasted).add(event.Event{
		Kind: event.ProcessStranded, PID: pid, Stranded: &event.Stranded{For: lasted, PPID: opener, ParentThreads: 3},
	})
}

// asks lets a thread of the opener send a request on session 1; 0 is the main one.
func (j *journal) asks(tid int) *journal {
	return j.add(event.Event{
		Kind: event.ProcessCalled, PID: opener, Session: front(1), Call: &event.Call{Name: event.CallSend, Type: "Query", TID: tid},
	})
}

func (j *journal) prints(text string) *journal {
	return j.add(event.Event{Kind: event.SubjectOutput, Output: &event.Output{Stream: "stderr", Text: text}})
}

// threadJournals are those of threads that were lost or shared, by name.
func threadJournals() map[string]func() []event.Event {
	const refusal = "sending query failed: another command is already in progress"
	return map[string]func() []event.Event{
		"child hung": func() []event.Event {
			return family(child).stranded(child, 3*time.Second).killed(child).events
		},
		"child hung and was asked to end": func() []event.Event {
			return family(child).stranded(child, 6*time.Second).asked(child).events
		},
		"child waits still": func() []event.Event { return family(child).stranded(child, time.Second).events },
		"child waited and did well": func() []event.Event {
			return family(child).stranded(child, 2*time.Second).exited(child, 0).events
		},
		"child paused until it was asked to end": func() []event.Event {
			return family(child).stranded(child, 2*time.Second).asked(child).events
		},
		"child with a session of its own waited": func() []event.Event {
			return family(child).open(2, child).stranded(child, 3*time.Second).killed(child).events
		},
		"another program waited": func() []event.Event {
			return family(child).execed(child).stranded(child, 3*time.Second).killed(child).events
		},
		"child of a stranger to the database waited": func() []event.Event {
			return family(sibling).started(child, sibling).stranded(child, 3*time.Second).killed(child).events
		},
		"threads at once":     func() []event.Event { return family().asks(0).asks(77).prints(refusal).events },
		"threads in turn":     func() []event.Event { return family().asks(0).asks(77).asks(0).events },
		"one thread, refused": func() []event.Event { return family().asks(0).asks(0).prints(refusal).events },
		"processes, refused": func() []event.Event {
			return family(child).asks(0).call(child, event.CallSend, "Query").prints(refusal).events
		},
	}
}

func TestFindingOfLostThreadsNamesTheOneThatWaits(t *testing.T) {
	t.Parallel()
	findings := diagnose.Explain(threadJournals()["child hung and was asked to end"]()).Findings
	assert.Equal(t, len(findings), 1)
	assert.DeepEqual(t, findings[0].PIDs, []int{child})
	assert.Equal(t, findings[0].Session, 1)
	assert.Assert(t, strings.Contains(findings[0].Message, "waited for 6.0 s or more") && strings.Contains(findings[0].Message, "killed by SIGTERM"), findings[0].Message)
}

// threadExemplars are those of the rules about threads; see exemplars.
func threadExemplars() map[string]struct{ triggers, misses []string } {
	return map[string]struct{ triggers, misses []string }{
		"fork.pool-threads-lost": {
			[]string{"python-pool-threads.broken", "built:child hung", "built:child hung and was asked to end", "built:child waits still"},
			[]string{
				"python-pool-threads.fixed", "built:child waited and did well", "built:child paused until it was asked to end",
				"built:child with a session of its own waited", "built:another program waited", "built:child of a stranger to the database waited",
			},
		},
		"process.threads-share": {
			[]string{"python-threads-share.broken", "built:threads at once"},
			[]string{"python-threads-share.fixed", "built:threads in turn", "built:one thread, refused", "built:processes, refused", "shared-query.broken"},
		},
	}
}
