package faults

import (
	"encoding/json"
	"strings"
)

// SeamEnv is the environment variable by which a subject that has the fault
// seam is told what to do to itself. Only `deadwire conveyor` reads it; the
// production binary does not know it.
const SeamEnv = "DEADWIRE_SEAM"

// MarkerPrefix begins a line on the subject's stderr by which the seam says
// that it acted. What follows is a Marker in JSON.
const MarkerPrefix = "deadwire-seam "

// Seam is what the subject shall do to itself.
type Seam struct {
	Fork    *ForkAct    `json:"fork,omitempty"`
	Compute *ComputeAct `json:"compute,omitempty"`
}

// ForkAct is what becomes of the coordinator's session across the start of workers.
type ForkAct struct {
	ID     string `json:"id"`
	Do     string `json:"do"`
	Worker int    `json:"worker,omitempty"` // 0: every worker
}

// ComputeAct is what happens in a worker just before a job's compute.
type ComputeAct struct {
	ID      string `json:"id"`
	Do      string `json:"do"`     // stop, panic, allocate, exit, burn
	Worker  int    `json:"worker"` // number of the worker, from 1
	Nth     int    `json:"nth"`    // before its Nth job, from 1
	LimitMB int    `json:"limit_mb,omitempty"`
	Code    int    `json:"code,omitempty"` // of exit
	MS      int    `json:"ms,omitempty"`   // of processor time, for burn
}

// Marker is one line of the seam: who did what.
type Marker struct {
	ID     string `json:"id"`
	Do     string `json:"do"`
	Worker int    `json:"worker"`
	PID    int    `json:"pid"`
	Job    string `json:"job,omitempty"`
}

// Encode returns the value of SeamEnv, or "" when the subject shall do nothing.
func (s Seam) Encode() string {
	if s.Fork == nil && s.Compute == nil {
		return ""
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic("faults: a Seam is plain data: " + err.Error())
	}
	return string(text)
}

func specOf(f Fault) json.RawMessage {
	text, err := json.Marshal(f)
	if err != nil {
		return nil
	}
	return text
}

// ParseMarker reads a marker line; false when the line is none.
func ParseMarker(line string) (Marker, bool) {
	text, ok := strings.CutPrefix(line, MarkerPrefix)
	if !ok {
		return Marker{}, false
	}
	var m Marker
	return m, json.Unmarshal([]byte(text), &m) == nil
}
