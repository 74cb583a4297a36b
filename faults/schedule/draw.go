package schedule

import (
	"math/rand/v2"

	"deadwire/faults"
	"deadwire/faults/backend"
	"deadwire/faults/fork"
	"deadwire/faults/network"
	"deadwire/faults/process"
	"deadwire/harness/event"
)

// draw makes one kind of fault. Of the kinds with the same place only one fits
// into a round: the subject's seam takes one act of a sort, the server one blow.
type draw struct {
	kind      string
	weight    int
	place     string
	ownServer bool
	make      func(r *rand.Rand, p Policy) Entry
}

// labels are conveyor's statements at which faults are set off, with the role
// of the session that sends them.
var labels = [...]struct{ role, label string }{
	{"worker-*", "persist"},
	{"worker-*", "persist-log"},
	{"coordinator", "partition"},
	{"coordinator", "candidates"},
	{"coordinator", "votes"},
	{"coordinator", "votes-purge"},
	{"coordinator", "ledger-complete"},
	{"slot", "slot-check"},
}

func draws() []draw {
	all := []draw{
		{kind: "network.cut", weight: 4, make: cut},
		{kind: "network.reset", weight: 3, make: reset},
		{kind: "network.latency", weight: 2, place: "latency", make: latency},
		{kind: "network.slicer", weight: 2, place: "slicer", make: slicer},
		{kind: "network.down", weight: 2, place: "link", make: down},
		{kind: "network.blackhole", weight: 1, place: "link", make: blackhole},
		{kind: "process.signal", weight: 3, place: "compute", make: signal},
		{kind: "process.panic", weight: 2, place: "compute", make: panics},
		{kind: "process.memory", weight: 1, place: "compute", make: memory},
		{kind: "fork", weight: 2, place: "fork", make: forks},
		{kind: "backend.terminate", weight: 4, make: terminate},
		{kind: "backend.lock", weight: 1, place: "lock", make: lock},
		{kind: "backend.crash", weight: 2, place: "server", ownServer: true, make: crash},
		{kind: "backend.restart", weight: 2, place: "server", ownServer: true, make: restart},
	}
	return all
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// moment draws when a fault is injected: at a statement, or some time after the start.
func moment(r *rand.Rand) faults.Trigger {
	if r.IntN(4) == 0 {
		return faults.Trigger{AfterMS: 20 + r.IntN(500)}
	}
	return faults.Trigger{Message: statement(r)}
}

func statement(r *rand.Rand) *faults.MessageMatch {
	l := labels[r.IntN(len(labels))]
	return &faults.MessageMatch{Session: l.role, From: event.Frontend, Label: l.label}
}

func role(r *rand.Rand) string { return pick(r, "coordinator", "worker-*", "worker-1", "slot") }

func cut(r *rand.Rand, _ Policy) Entry {
	at := statement(r)
	if r.IntN(3) == 0 {
		at = pick(r,
			&faults.MessageMatch{Session: "worker-*", From: event.Frontend, Type: "Query", Verb: "COMMIT"},
			&faults.MessageMatch{Session: "worker-*", From: event.Backend, Type: "CommandComplete", Verb: "COMMIT"})
	}
	return Entry{Fault: network.Cut{Manner: pick(r, "fin", "rst", "rst", "blackhole"), At: *at, Skip: r.IntN(3)}}
}

func reset(r *rand.Rand, _ Policy) Entry {
	return Entry{Fault: network.Reset{Session: role(r), Manner: pick(r, "", "fin")}, When: moment(r)}
}

func latency(r *rand.Rand, _ Policy) Entry {
	return Entry{Fault: network.Latency{MS: 1 + r.IntN(8), JitterMS: r.IntN(4)}}
}

func slicer(r *rand.Rand, _ Policy) Entry {
	return Entry{Fault: network.Slicer{Bytes: pick(r, 16, 64, 256)}}
}

func down(r *rand.Rand, _ Policy) Entry { return Entry{Fault: network.Down{}, When: moment(r)} }

func blackhole(r *rand.Rand, _ Policy) Entry {
	return Entry{Fault: network.Blackhole{}, When: moment(r)}
}

func signal(r *rand.Rand, p Policy) Entry {
	if r.IntN(3) == 0 {
		return Entry{Fault: process.Signal{Signal: "KILL", Process: "coordinator"}, When: faults.Trigger{Message: statement(r)}}
	}
	return Entry{Fault: process.Signal{
		Signal: pick(r, "KILL", "SEGV", "ABRT"), Process: "worker", Worker: 1 + r.IntN(p.Workers), In: "compute", Nth: 1 + r.IntN(3),
	}}
}

func panics(r *rand.Rand, p Policy) Entry {
	return Entry{Fault: process.Panic{Worker: 1 + r.IntN(p.Workers), Nth: 1 + r.IntN(3)}}
}

func memory(r *rand.Rand, p Policy) Entry {
	return Entry{Fault: process.Memory{LimitMB: 96, Worker: 1 + r.IntN(p.Workers), Nth: 1 + r.IntN(3)}}
}

// forks draws the harmless acts only: the others are bugs of a subject.
func forks(r *rand.Rand, _ Policy) Entry {
	return Entry{Fault: fork.Fork{Do: pick(r, fork.Close, fork.Discard)}}
}

func terminate(r *rand.Rand, _ Policy) Entry {
	return Entry{Fault: backend.Terminate{Session: role(r)}, When: moment(r)}
}

func lock(r *rand.Rand, _ Policy) Entry {
	return Entry{Fault: backend.Lock{Table: pick(r, "image_evidence", "card_printing_tag", "card_scan_log")}, When: moment(r)}
}

func crash(r *rand.Rand, _ Policy) Entry {
	return Entry{Fault: backend.Crash{Session: pick(r, "coordinator", "worker-*")}, When: faults.Trigger{Message: statement(r)}}
}

func restart(r *rand.Rand, _ Policy) Entry {
	return Entry{Fault: backend.Restart{Mode: pick(r, "fast", "immediate")}, When: faults.Trigger{Message: statement(r)}}
}
