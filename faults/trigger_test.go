package faults_test

import (
	"context"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/faults"
	"deadwire/harness/event"
)

// told is a journal in which a worker's session was named and then ended.
func told() *event.Journal {
	j := event.NewJournal(nil, 0)
	id := event.SessionID{Place: event.Front, N: 1}
	j.Record(event.Event{Kind: event.SessionNamed, Session: id, Named: &event.Named{ApplicationName: "conveyor/worker-1", BackendPID: 7}})
	j.Record(event.Event{Kind: event.FaultBit, Session: id, Fault: &event.Fault{ID: "f1", Name: "backend.terminate"}})
	j.Record(event.Event{Kind: event.SessionClosing, Session: id, Closing: &event.Closing{Manner: event.Fatal, SQLState: "57P01", Text: "terminating connection"}})
	j.Record(event.Event{Kind: event.ServerLogged, Log: &event.Log{SQLState: "57P01", Text: "terminating connection due to administrator command"}})
	return j
}

func fires(j *event.Journal, m faults.JournalMatch, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return faults.Trigger{Journal: &m}.Wait(ctx, faults.Target{Journal: j}, nil) == nil
}

func TestAPredicateOverTheJournalHolds(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]faults.JournalMatch{
		"by its kind":     {Kind: event.SessionClosing},
		"by its session":  {Kind: event.SessionClosing, Session: "worker-*"},
		"by its manner":   {Kind: event.SessionClosing, Manner: event.Fatal, SQLState: "57P01"},
		"by its words":    {Kind: event.ServerLogged, Text: "administrator"},
		"by its fault":    {Kind: event.FaultBit, Fault: "backend.terminate"},
		"counted as one":  {Kind: event.SessionNamed, Count: 1},
		"in all respects": {Kind: event.SessionClosing, Session: "worker-1", Manner: event.Fatal, SQLState: "57P01", Text: "^terminating"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Assert(t, fires(told(), m, time.Minute))
		})
	}
}

func TestAPredicateOverTheJournalDoesNotHold(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]faults.JournalMatch{
		"for another kind":     {Kind: event.SessionEnded},
		"for another session":  {Kind: event.SessionClosing, Session: "coordinator"},
		"for another manner":   {Kind: event.SessionClosing, Manner: event.RST},
		"for another code":     {Kind: event.ServerLogged, SQLState: "57P02"},
		"for another fault":    {Kind: event.FaultBit, Fault: "network.cut"},
		"for other words":      {Kind: event.SessionClosing, Text: "^crash"},
		"until there are more": {Kind: event.SessionClosing, Count: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Assert(t, !fires(told(), m, 20*time.Millisecond))
		})
	}
}

func TestAPredicateHoldsWhenTheLastEventComes(t *testing.T) {
	t.Parallel()
	j := told()
	held := make(chan bool, 1)
	go func() {
		held <- fires(j, faults.JournalMatch{Kind: event.SessionEnded, Session: "worker-1", Count: 1}, time.Minute)
	}()
	j.Record(event.Event{Kind: event.SessionEnded, Session: event.SessionID{Place: event.Front, N: 1}, Ended: &event.Ended{}})
	assert.Assert(t, <-held)
}

func TestAnUnreadablePatternIsRefused(t *testing.T) {
	t.Parallel()
	err := faults.Trigger{Journal: &faults.JournalMatch{Kind: event.SessionEnded, Text: "("}}.Wait(t.Context(), faults.Target{Journal: told()}, nil)
	assert.ErrorContains(t, err, "missing closing )")
}
