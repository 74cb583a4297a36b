package event_test

import (
	"encoding/json"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"deadwire/harness/event"
)

func TestSessionIDSurvivesItsText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := event.SessionID{
			Place: event.Place(rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "place")),
			N:     rapid.Int().Draw(t, "n"),
		}
		text, err := id.MarshalText()
		assert.NilError(t, err)
		var back event.SessionID
		assert.NilError(t, back.UnmarshalText(text))
		assert.Equal(t, back, id)
	})
}

func TestSessionIDTexts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		want event.SessionID
		ok   bool
	}{
		{"front/3", event.SessionID{Place: event.Front, N: 3}, true},
		{"back/12", event.SessionID{Place: event.Back, N: 12}, true},
		{"front", event.SessionID{}, false},
		{"front/", event.SessionID{}, false},
		{"front/x", event.SessionID{}, false},
		{"front/3/4", event.SessionID{}, false},
		{"", event.SessionID{}, false},
	} {
		t.Run(test.text, func(t *testing.T) {
			t.Parallel()
			var id event.SessionID
			err := id.UnmarshalText([]byte(test.text))
			assert.Equal(t, id, test.want)
			if test.ok {
				assert.NilError(t, err)
				assert.Equal(t, id.String(), test.text)
			} else {
				assert.ErrorContains(t, err, "want PLACE/NUMBER")
			}
		})
	}
}

func TestOnlyTheZeroSessionIDIsZero(t *testing.T) {
	t.Parallel()
	assert.Assert(t, event.SessionID{}.IsZero())
	assert.Assert(t, !event.SessionID{N: 1}.IsZero())
	assert.Assert(t, !event.SessionID{Place: event.Front}.IsZero())
}

func TestEventsJSONLeavesOutWhatIsNotSet(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(event.Event{Seq: 1, At: 2, Kind: event.JournalFull})
	assert.NilError(t, err)
	assert.Equal(t, string(text), `{"seq":1,"at_ns":2,"kind":"journal.full"}`)
}

func TestExitCodeZeroIsToldFromNone(t *testing.T) {
	t.Parallel()
	zero := 0
	text, err := json.Marshal(event.Process{Code: &zero})
	assert.NilError(t, err)
	assert.Equal(t, string(text), `{"code":0}`)
	text, err = json.Marshal(event.Process{Signal: "SIGKILL"})
	assert.NilError(t, err)
	assert.Assert(t, !strings.Contains(string(text), "code"))
}
