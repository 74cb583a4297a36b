package diagnose_test

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/harness/diagnose"
	"deadwire/harness/event"
)

const badRecord = "SSL error: decryption failed or bad record mac"

// encrypted is a session that the tap could not read, held by two processes.
func encrypted() *journal {
	j := family(child).share(opener, child)
	for _, typ := range []string{"SSLRequest", "TLS application_data"} {
		j.message(front(1), event.Message{From: event.Frontend, Type: typ, Length: 60})
	}
	return j
}

// The server's log names no session of which the tap could read nothing: another's
// bad record must not be taken for this one's.
func TestABadRecordOfAnotherSessionAccusesNobody(t *testing.T) {
	t.Parallel()
	j := encrypted().killed(opener).later(time.Second).subjectEnds(event.FIN).logged(badRecord).exited(child, 0)
	assert.Equal(t, diagnose.Explain(j.events).Endings[0].Rule, "fork.held-by-descendant")
}

func TestABadRecordIsToldByTheServersLogAlone(t *testing.T) {
	t.Parallel()
	j := encrypted().logged(badRecord).closing(front(1), event.Closing{From: event.Backend, Manner: event.FIN})
	ending := diagnose.Explain(j.events).Endings[0]
	assert.Equal(t, ending.Rule, "fork.shared-tls", ending.Message)
	assert.Equal(t, ending.Actor.Kind, diagnose.Unknown)
	assert.Equal(t, ending.Certainty, diagnose.Inferred)
}
