package worker

import "encoding/json"

// What crosses the pipes. The coordinator sends one greeting, then orders; the
// worker answers the greeting once (ready or refused) and each order once (done or error).
type (
	greeting struct {
		Worker    int  `json:"worker"`
		Inherited bool `json:"inherited"` // the session's socket is descriptor inheritedFD
	} // body: setup

	order struct {
		ID   string          `json:"id"`
		Args json.RawMessage `json:"args,omitempty"`
	} // body: the job's

	answer struct {
		Kind      string          `json:"kind"`
		Value     json.RawMessage `json:"value,omitempty"`
		Error     string          `json:"error,omitempty"`
		ErrorKind string          `json:"error_kind,omitempty"`
	}
)

const (
	answerReady   = "ready"
	answerRefused = "refused"
	answerDone    = "done"
	answerError   = "error"
)

// inheritedFD is the first descriptor after the standard streams
const inheritedFD = 3
