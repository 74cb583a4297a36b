package schedule

import (
	"math/rand/v2"
	"slices"

	"deadwire/faults"
	"deadwire/faults/network"
	"deadwire/harness/event"
)

// draw makes one kind of fault. Of the kinds with the same place only one fits
// into a round: the subject's seam takes one act of a sort, the server one blow.
type draw struct {
	kind   string
	weight int
	place  string
	needs  needs
	make   func(r *rand.Rand, p Policy) []Entry
}

// needs is what must be there for a kind to be possible.
type needs struct {
	ownServer bool // the round has the server to itself
	settings  bool // the server's settings may be changed
	conveyor  bool // the subject is conveyor: it has a fault seam, its tables, and fetches images from deadwire
}

func draws() []draw {
	return slices.Concat(networkDraws(), processDraws(), backendDraws(), sourceDraws())
}

// one makes a draw's result of a fault that acts from the start.
func one(f faults.Fault) []Entry { return []Entry{{Fault: f}} }

// at makes a draw's result of a fault that is injected by a trigger.
func at(f faults.Fault, when faults.Trigger) []Entry { return []Entry{{Fault: f, When: when}} }

// labels are conveyor's statements at which faults are set off, with the role
// of the session that sends them.
var labels = [...]struct{ role, label string }{
	{"worker-*", "persist"},
	{"worker-*", "persist-log"},
	{"coordinator", "partition"},
	{"coordinator", "candidates"},
	{"coordinator", "votes"},
	{"coordinator", "votes-purge"},
	{"coordinator", "ledger-start"},
	{"coordinator", "ledger-complete"},
	{"slot", "slot-check"},
	{"rate", "rate-reserve"},
}

// verbs begin the statements at which faults are set off in any other program,
// where it is not just any message.
var verbs = [...]string{"BEGIN", "COMMIT", "INSERT", "SELECT", "UPDATE"}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// moment draws when a fault is injected: at a statement, or some time after the start.
func moment(r *rand.Rand, p Policy) faults.Trigger {
	if r.IntN(4) == 0 {
		return faults.Trigger{AfterMS: 20 + r.IntN(500)}
	}
	return faults.Trigger{Message: statement(r, p)}
}

func statement(r *rand.Rand, p Policy) *faults.MessageMatch {
	if p.Program {
		m := &faults.MessageMatch{From: event.Frontend}
		if r.IntN(3) == 0 {
			m.Verb = pick(r, verbs[:]...)
		}
		return m
	}
	l := labels[r.IntN(len(labels))]
	return &faults.MessageMatch{Session: l.role, From: event.Frontend, Label: l.label}
}

// commit is the message by which a transaction's fate is decided.
func commit(p Policy) faults.MessageMatch {
	m := faults.MessageMatch{From: event.Frontend, Type: "Query", Verb: "COMMIT"}
	if !p.Program {
		m.Session = "worker-*"
	}
	return m
}

// skip draws how many matching messages pass before one is hit.
func skip(r *rand.Rand, p Policy) int {
	if p.Program {
		return r.IntN(8)
	}
	return r.IntN(3)
}

func role(r *rand.Rand, p Policy) string {
	if p.Program {
		return "*"
	}
	return pick(r, "coordinator", "worker-*", "worker-1", "slot", "rate")
}

func networkDraws() []draw {
	return []draw{
		{kind: "network.cut", weight: 4, make: cut},
		{kind: "network.reset", weight: 3, make: reset},
		{kind: "network.half-close", weight: 2, make: halfClose},
		{kind: "network.error", weight: 2, make: injectError},
		{kind: "network.stall", weight: 2, place: "stall", make: stall},
		{kind: "network.latency", weight: 2, place: "latency", make: latency},
		{kind: "network.bandwidth", weight: 1, place: "bandwidth", make: bandwidth},
		{kind: "network.slicer", weight: 2, place: "slicer", make: slicer},
		{kind: "network.slow-close", weight: 1, place: "slow-close", make: slowClose},
		{kind: "network.limit-data", weight: 1, place: "limit-data", make: limitData},
		{kind: "network.idle-cut", weight: 1, place: "idle-cut", make: idleCut},
		{kind: "network.refuse", weight: 1, place: "refuse", make: refuse},
		{kind: "network.down", weight: 2, place: "link", make: down},
		{kind: "network.blackhole", weight: 1, place: "link", make: blackhole},
	}
}

func cut(r *rand.Rand, p Policy) []Entry {
	match := *statement(r, p)
	if r.IntN(3) == 0 {
		answer := commit(p)
		answer.From, answer.Type = event.Backend, "CommandComplete"
		match = pick(r, commit(p), answer)
	}
	return one(network.Cut{Manner: pick(r, "fin", "rst", "rst", "blackhole"), At: match, Skip: skip(r, p)})
}

func reset(r *rand.Rand, p Policy) []Entry {
	return at(network.Reset{Session: role(r, p), Manner: pick(r, "", "fin")}, moment(r, p))
}

func halfClose(r *rand.Rand, p Policy) []Entry {
	f := network.HalfClose{Towards: pick(r, "subject", "server")}
	if r.IntN(2) == 0 {
		f.Session = role(r, p)
		return at(f, moment(r, p))
	}
	f.At, f.Skip = *statement(r, p), skip(r, p)
	return one(f)
}

// injectError draws errors that a server under strain gives, and ends of sessions.
func injectError(r *rand.Rand, p Policy) []Entry {
	f := network.Error{
		At: *statement(r, p), Skip: skip(r, p), Severity: "ERROR",
		SQLState: pick(r, "40001", "40P01", "53100", "53200", "55P03", "57014", "XX000"),
	}
	if r.IntN(3) == 0 {
		f.Severity, f.SQLState = "FATAL", pick(r, "57P01", "57P02", "25P03")
	}
	return one(f)
}

func stall(r *rand.Rand, p Policy) []Entry {
	match := *statement(r, p)
	if r.IntN(2) == 0 {
		match = commit(p)
	}
	f := network.Stall{At: match, Skip: skip(r, p), ForMS: 50 + r.IntN(900)}
	if r.IntN(5) == 0 {
		f.ForMS = 0 // until the subject has given up
	}
	return one(f)
}

func latency(r *rand.Rand, _ Policy) []Entry {
	delay := 1 + r.IntN(8)
	return one(network.Latency{MS: delay, JitterMS: r.IntN(min(delay, 4))})
}

func bandwidth(r *rand.Rand, _ Policy) []Entry {
	return one(network.Bandwidth{KBs: pick(r, 64, 256, 1024)})
}

func slicer(r *rand.Rand, _ Policy) []Entry {
	return one(network.Slicer{Bytes: pick(r, 16, 64, 256)})
}

func slowClose(r *rand.Rand, _ Policy) []Entry {
	return one(network.SlowClose{MS: 20 + r.IntN(300)})
}

func limitData(r *rand.Rand, _ Policy) []Entry {
	return one(network.LimitData{Bytes: 2000 + r.IntN(20000), From: pick(r, "frontend", "backend")})
}

func idleCut(r *rand.Rand, p Policy) []Entry {
	return at(network.IdleCut{AfterMS: 100 + r.IntN(400), Session: role(r, p)}, moment(r, p))
}

func refuse(r *rand.Rand, p Policy) []Entry { return at(network.Refuse{}, moment(r, p)) }

func down(r *rand.Rand, p Policy) []Entry { return at(network.Down{}, moment(r, p)) }

func blackhole(r *rand.Rand, p Policy) []Entry { return at(network.Blackhole{}, moment(r, p)) }
