package witness

import (
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/harness/event"
)

func TestTheGuardSuppressesOnlyWhatAnInheritorDoesToASessionOfTheTap(t *testing.T) {
	t.Parallel()
	const opener, inheritor = 10, 20
	terminates := func(holders ...int) event.Call {
		return event.Call{Name: event.CallSend, Type: terminate, Bytes: terminateBytes, Holders: holders}
	}
	session := event.SessionID{Place: event.Front, N: 1}
	for name, test := range map[string]struct {
		question Question
		want     Decision
	}{
		"an inheritor's Terminate":   {Question{PID: inheritor, Session: session, Opener: opener, Call: terminates(opener, inheritor)}, Suppress},
		"an inheritor's shutdown":    {Question{PID: inheritor, Session: session, Opener: opener, Call: event.Call{Name: event.CallShutdown, Holders: []int{opener, inheritor}}}, Suppress},
		"the opener's own Terminate": {Question{PID: opener, Session: session, Opener: opener, Call: terminates(opener, inheritor)}, Proceed},
		"a session handed over":      {Question{PID: inheritor, Session: session, Opener: opener, Call: terminates(inheritor)}, Proceed},
		"a socket past the tap":      {Question{PID: inheritor, Opener: opener, Call: terminates(opener, inheritor)}, Proceed},
		"an opener that nobody saw":  {Question{PID: inheritor, Session: session, Call: terminates(inheritor)}, Proceed},
		"a query":                    {Question{PID: inheritor, Session: session, Opener: opener, Call: event.Call{Name: event.CallSend, Type: "Query", Bytes: 20, Holders: []int{opener, inheritor}}}, Proceed},
	} {
		assert.Equal(t, Guard(test.question), test.want, name)
	}
}
