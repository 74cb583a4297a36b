package schedule

import (
	"deadwire/faults"
	"deadwire/faults/network"
	"deadwire/faults/process"
)

// simpler returns variants of an entry that a reader takes in faster. Each is
// strictly simpler, so that shrinking ends.
func simpler(e Entry) []Entry {
	var out []Entry
	if e.When.AfterMS > 0 {
		out = append(out, Entry{Fault: e.Fault, When: faults.Trigger{AfterMS: e.When.AfterMS / 2}})
	}
	switch f := e.Fault.(type) {
	case network.Cut:
		if f.Skip > 0 {
			f.Skip = 0
			out = append(out, Entry{Fault: f, When: e.When})
		}
	case network.Latency:
		if f.JitterMS > 0 {
			f.JitterMS = 0
			out = append(out, Entry{Fault: f, When: e.When})
		}
	case process.Signal:
		if f.Nth > 1 {
			f.Nth = 1
			out = append(out, Entry{Fault: f, When: e.When})
		}
	case process.Panic:
		if f.Nth > 1 {
			f.Nth = 1
			out = append(out, Entry{Fault: f, When: e.When})
		}
	}
	return out
}
