package schedule

import (
	"math/rand/v2"

	"deadwire/faults"
	"deadwire/faults/backend"
	"deadwire/faults/fork"
	"deadwire/faults/process"
	"deadwire/faults/source"
)

// processDraws are the kinds that act on the subject's processes.
func processDraws() []draw {
	seam := needs{conveyor: true}
	return []draw{
		{kind: "process.signal", weight: 3, place: "compute", make: signal},
		{kind: "process.freeze", weight: 2, place: "compute", make: freeze},
		{kind: "process.panic", weight: 2, place: "compute", needs: seam, make: panics},
		{kind: "process.exit", weight: 2, place: "compute", needs: seam, make: exit},
		{kind: "process.memory", weight: 1, place: "compute", needs: seam, make: memory},
		{kind: "process.cpu", weight: 1, place: "compute", needs: seam, make: cpu},
		{kind: "process.descriptors", weight: 1, place: "descriptors", make: descriptors},
		{kind: "process.slow-start", weight: 1, place: "start", make: slowStart},
		{kind: "process.orphan", weight: 1, place: "orphan", needs: seam, make: orphan},
		{kind: "fork", weight: 2, place: "fork", needs: seam, make: forks},
	}
}

func signal(r *rand.Rand, p Policy) []Entry {
	if p.Program || r.IntN(3) == 0 {
		return at(process.Signal{Signal: "KILL", Process: "coordinator"}, faults.Trigger{Message: statement(r, p)})
	}
	return one(process.Signal{Signal: pick(r, "KILL", "SEGV", "ABRT"), Process: "worker", Worker: worker(r, p), In: "compute", Nth: nth(r)})
}

// worker draws a worker's number, and nth one of its jobs.
func worker(r *rand.Rand, p Policy) int { return 1 + r.IntN(p.Workers) }

func nth(r *rand.Rand) int { return 1 + r.IntN(3) }

func freeze(r *rand.Rand, p Policy) []Entry {
	f := process.Freeze{Process: "coordinator", ForMS: 50 + r.IntN(900)}
	if p.Program || r.IntN(2) == 0 {
		return at(f, moment(r, p))
	}
	f.Process, f.In, f.Worker, f.Nth = "worker", "compute", worker(r, p), nth(r)
	return one(f)
}

func panics(r *rand.Rand, p Policy) []Entry {
	return one(process.Panic{Worker: worker(r, p), Nth: nth(r)})
}

func exit(r *rand.Rand, p Policy) []Entry {
	return one(process.Exit{Code: pick(r, 0, 1, 3), Worker: worker(r, p), Nth: nth(r)})
}

func memory(r *rand.Rand, p Policy) []Entry {
	return one(process.Memory{LimitMB: 96, Worker: worker(r, p), Nth: nth(r)})
}

func cpu(r *rand.Rand, p Policy) []Entry {
	return one(process.CPU{MS: 50 + r.IntN(400), Worker: worker(r, p), Nth: nth(r)})
}

func descriptors(r *rand.Rand, p Policy) []Entry {
	f := process.Descriptors{Process: "coordinator", Spare: r.IntN(3)}
	if !p.Program && r.IntN(2) == 0 {
		f.Process, f.Worker = "worker", worker(r, p)
		// A worker's process is known once the first one has stored something.
		return at(f, faults.Trigger{Message: &faults.MessageMatch{Session: "worker-*", From: "frontend", Label: "persist"}})
	}
	return at(f, moment(r, p))
}

func slowStart(r *rand.Rand, _ Policy) []Entry { return one(process.SlowStart{MS: 20 + r.IntN(300)}) }

func orphan(*rand.Rand, Policy) []Entry {
	return at(process.Orphan{}, faults.Trigger{Message: &faults.MessageMatch{Session: "worker-*", From: "frontend", Label: "persist"}})
}

// forks draws the harmless acts only: the others are bugs of a subject.
func forks(r *rand.Rand, _ Policy) []Entry {
	return one(fork.Fork{Do: pick(r, fork.Close, fork.Discard)})
}

// backendDraws are the kinds that act on the server and on its processes.
func backendDraws() []draw {
	tables, server := needs{conveyor: true}, needs{ownServer: true}
	return []draw{
		{kind: "backend.terminate", weight: 4, make: terminate},
		{kind: "backend.lock", weight: 1, place: "lock", needs: tables, make: lock},
		{kind: "backend.cancel", weight: 2, place: "lock", needs: tables, make: cancel},
		{kind: "backend.timeout", weight: 2, place: "settings", needs: needs{settings: true}, make: timeout},
		{kind: "backend.read-only", weight: 1, place: "settings", needs: needs{settings: true}, make: readOnly},
		{kind: "backend.slots", weight: 1, place: "server", needs: server, make: slots},
		{kind: "backend.crash", weight: 2, place: "server", needs: server, make: crash},
		{kind: "backend.restart", weight: 2, place: "server", needs: server, make: restart},
	}
}

func terminate(r *rand.Rand, p Policy) []Entry {
	return at(backend.Terminate{Session: role(r, p)}, moment(r, p))
}

func lock(r *rand.Rand, p Policy) []Entry {
	return at(backend.Lock{Table: pick(r, "image_evidence", "card_printing_tag", "card_scan_log")}, moment(r, p))
}

// cancel draws a lock too: a statement must be at work to be cancelled.
func cancel(r *rand.Rand, _ Policy) []Entry {
	blocked := pick(r, "worker-*", "coordinator")
	table := map[string]string{"worker-*": "image_evidence", "coordinator": "card_printing_tag"}[blocked]
	early := faults.Trigger{Message: &faults.MessageMatch{Session: "coordinator", From: "frontend", Label: "partition"}}
	return []Entry{
		{Fault: backend.Lock{Table: table}, When: early},
		{Fault: backend.Cancel{Session: blocked}, When: faults.Trigger{Blocked: blocked}},
	}
}

// timeout draws one of the server's time limits, so short that it is met. Those
// that newer versions have are not drawn for older ones.
func timeout(r *rand.Rand, p Policy) []Entry {
	of := []string{"statement", "idle-in-transaction"}
	if p.Major == 0 || p.Major >= 14 {
		of = append(of, "idle-session")
	}
	if p.Major == 0 || p.Major >= 17 {
		of = append(of, "transaction")
	}
	return one(backend.Timeout{Of: pick(r, of...), MS: pick(r, 5, 50, 300)})
}

func readOnly(*rand.Rand, Policy) []Entry { return one(backend.ReadOnly{}) }

func slots(r *rand.Rand, p Policy) []Entry {
	return at(backend.Slots{Free: r.IntN(2)}, moment(r, p))
}

func crash(r *rand.Rand, p Policy) []Entry {
	session := "*"
	if !p.Program {
		session = pick(r, "coordinator", "worker-*")
	}
	return at(backend.Crash{Session: session}, faults.Trigger{Message: statement(r, p)})
}

func restart(r *rand.Rand, p Policy) []Entry {
	return at(backend.Restart{Mode: pick(r, "fast", "immediate")}, faults.Trigger{Message: statement(r, p)})
}

// sourceDraws are the kinds that act on what the subject fetches. A lockout
// (403) is not drawn: it halts every later run until a person has looked into it.
func sourceDraws() []draw {
	ours := needs{conveyor: true}
	return []draw{
		{kind: "source.status", weight: 2, place: "source", needs: ours, make: status},
		{kind: "source.corrupt", weight: 1, place: "source", needs: ours, make: corrupt},
		{kind: "source.cut", weight: 1, place: "source", needs: ours, make: cutBody},
		{kind: "source.bomb", weight: 1, place: "source", needs: ours, make: bomb},
		{kind: "source.hang", weight: 1, place: "source", needs: ours, make: hang},
	}
}

func request(r *rand.Rand) int { return 1 + r.IntN(8) }

func status(r *rand.Rand, _ Policy) []Entry {
	return one(source.Status{Code: pick(r, 404, 429, 500, 503), First: request(r), Count: 1 + r.IntN(3)})
}

func corrupt(r *rand.Rand, _ Policy) []Entry {
	return one(source.Corrupt{First: request(r), Count: 1 + r.IntN(3)})
}

func cutBody(r *rand.Rand, _ Policy) []Entry {
	return one(source.Cut{Bytes: r.IntN(2000), First: request(r), Count: 1 + r.IntN(3)})
}

func bomb(r *rand.Rand, _ Policy) []Entry { return one(source.Bomb{First: request(r), Count: 1}) }

func hang(r *rand.Rand, _ Policy) []Entry { return one(source.Hang{First: request(r), Count: 1}) }
