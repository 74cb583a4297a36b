package diagnose_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/harness/diagnose"
	"deadwire/harness/event"
)

// ask records a request by pid over session 1.
func (j *journal) ask(pid int) *journal { return j.call(pid, event.CallSend, "Query") }

func TestSharedQuery(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		journal *journal
		pids    []int
	}{
		{"one process asks", family().ask(opener).ask(opener), nil},
		{"parent and child ask in turns", family(child).ask(opener).ask(child).ask(opener), []int{opener, child}},
		{"two children ask", family(child, sibling).ask(child).ask(sibling), []int{child, sibling}},
		{"the child asks while its parent lives", family(child).ask(opener).ask(child), []int{opener, child}},
		{"the child goes on after its parent", family(child).ask(opener).exited(opener, 0).ask(child), nil},
		{"the child only says Terminate", family(child).ask(opener).terminate(child, opener, child), nil},
		{"the child only sends what is no request", family(child).ask(opener).call(child, event.CallSend, "PasswordMessage"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			findings := diagnose.Explain(test.journal.events).Findings
			findings = slices.DeleteFunc(findings, func(f diagnose.Finding) bool { return f.Rule != "fork.shared-query" })
			if test.pids == nil {
				assert.Equal(t, len(findings), 0, "%+v", findings)
				return
			}
			assert.Equal(t, len(findings), 1)
			assert.Equal(t, findings[0].Rule, "fork.shared-query")
			assert.DeepEqual(t, findings[0].PIDs, test.pids)
			assert.Equal(t, len(findings[0].Evidence), len(test.pids))
			assert.Assert(t, findings[0].Mend != "")
		})
	}
}

// commits records a COMMIT at the front tap and, as far as it came, at the back.
func commits(reached, answered, delivered bool) *journal {
	ask := event.Message{From: event.Frontend, Type: "Query", Verb: "COMMIT"}
	answer := event.Message{From: event.Backend, Type: "CommandComplete", Verb: "COMMIT"}
	j := family().fault(event.FaultInjected, "f1", "network.cut").message(front(1), ask)
	if reached {
		j.message(back(1), ask)
	}
	if answered {
		j.message(back(1), answer)
	}
	if delivered {
		j.message(front(1), answer)
	}
	return j
}

func cut(state event.State) event.Closing {
	return event.Closing{From: event.Backend, Manner: event.FIN, Cause: "f1", State: state}
}

func TestAmbiguousCommit(t *testing.T) {
	t.Parallel()
	late := commits(true, false, false)
	late.message(front(1), event.Message{From: event.Backend, Type: "CommandComplete", Verb: "COMMIT", Dropped: true})
	watch := without(commits(true, true, false).closing(front(1), cut(event.Committing)).events, func(e event.Event) bool {
		return e.Session.Place == event.Back
	})
	for _, test := range []struct {
		name   string
		events []event.Event
		says   string
	}{
		{"it never reached the server", commits(false, false, false).closing(front(1), cut(event.Committing)).events, "never reached PostgreSQL"},
		{"it was carried out, the answer was lost", commits(true, true, false).closing(front(1), cut(event.Committing)).events, "the transaction is durable"},
		{"no answer was seen", commits(true, false, false).closing(front(1), cut(event.Committing)).events, "cannot be told from here"},
		{"the answer was kept back by a rule", late.closing(front(1), cut(event.Committing)).events, "cannot be told from here"},
		{"there was one tap", watch, "cannot be told from here"},
		{"the client has its answer", commits(true, true, true).closing(front(1), cut(event.Idle)).events, ""},
		{"the client hung up by itself", commits(true, false, false).closing(front(1), event.Closing{
			From: event.Frontend, Manner: event.FIN, State: event.Committing,
		}).events, ""},
		{"the session lives", commits(true, false, false).events, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			findings := diagnose.Explain(test.events).Findings
			if test.says == "" {
				assert.Equal(t, len(findings), 0, "%+v", findings)
				return
			}
			assert.Equal(t, len(findings), 1)
			assert.Equal(t, findings[0].Rule, "txn.ambiguous-commit")
			assert.Assert(t, strings.Contains(findings[0].Message, test.says), findings[0].Message)
		})
	}
}

func TestSessionHeldByADescendantIsAFindingWhileItLives(t *testing.T) {
	t.Parallel()
	held := diagnose.Explain(family(child).share(opener, child).killed(opener).events)
	assert.Equal(t, len(held.Findings), 1)
	assert.Equal(t, held.Findings[0].Rule, "fork.held-by-descendant")
	assert.DeepEqual(t, held.Findings[0].PIDs, []int{child})
	for name, j := range map[string]*journal{
		"the opener lives":          family(child).share(opener, child),
		"the child is gone as well": family(child).share(opener, child).killed(opener).exited(child, 0),
		"nobody else held it":       family(child).killed(opener),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, len(diagnose.Explain(j.events).Findings), 0)
		})
	}
}

func TestSharing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		journal *journal
		holders []int
	}{
		{"nobody", family(child), nil},
		{"the opener alone", family(child).share(opener), nil},
		{"a forked child", family(child).share(opener, child), []int{child}},
		{"two", family(child, sibling).share(opener, child, sibling), []int{child, sibling}},
		{"a program that kept the descriptor", family(child).execed(child).later(time.Second).share(opener, child), []int{child}},
		{"a child on its way from fork to exec", family(child).share(opener, child).execed(child).share(opener), nil},
		{"seen at a call only", family(child).terminate(child, opener, child), []int{child}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var holders []int
			for _, s := range diagnose.Explain(test.journal.events).Sharing {
				assert.Equal(t, s.Session, 1)
				assert.Equal(t, s.Opener, opener)
				holders = append(holders, s.Holder)
			}
			assert.DeepEqual(t, holders, test.holders)
		})
	}
}
