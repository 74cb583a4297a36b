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
	add := func(f faults.Fault) { out = append(out, Entry{Fault: f, When: e.When}) }
	switch f := e.Fault.(type) {
	case network.Cut:
		if f.Skip > 0 {
			f.Skip = 0
			add(f)
		}
	case network.HalfClose:
		if f.Skip > 0 {
			f.Skip = 0
			add(f)
		}
	case network.Error:
		if f.Skip > 0 {
			f.Skip = 0
			add(f)
		}
	case network.Stall:
		if f.Skip > 0 {
			f.Skip = 0
			add(f)
		}
	case network.Latency:
		if f.JitterMS > 0 {
			f.JitterMS = 0
			add(f)
		}
	case process.Signal:
		first(&f.Worker, &f.Nth, func() faults.Fault { return f }, add)
	case process.Panic:
		first(&f.Worker, &f.Nth, func() faults.Fault { return f }, add)
	case process.Memory:
		first(&f.Worker, &f.Nth, func() faults.Fault { return f }, add)
	case process.Exit:
		first(&f.Worker, &f.Nth, func() faults.Fault { return f }, add)
	case process.CPU:
		first(&f.Worker, &f.Nth, func() faults.Fault { return f }, add)
	case process.Freeze:
		first(&f.Worker, &f.Nth, func() faults.Fault { return f }, add)
	}
	return out
}

// first adds what acts on a worker's first job, and on the first worker: with fewer
// cards nobody knows who gets the others.
func first(worker, nth *int, changed func() faults.Fault, add func(faults.Fault)) {
	if *nth > 1 {
		*nth = 1
		add(changed())
	}
	if *worker > 1 {
		*worker = 1
		add(changed())
	}
}
