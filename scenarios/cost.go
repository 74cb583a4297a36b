package scenarios

import "deadwire/faults"

// weights of what makes a case long, in seconds on a quiet machine
const (
	costBase   = 1
	costResume = 1
	costServer = 2  // a server of its own is made, and mostly restarted
	costSilent = 4  // the subject waits out its deadline
	costLink   = 12 // on every session and connect, one after the other
)

// ruleSilence is what a session that hears nothing more ends by.
const ruleSilence = "network.blackhole"

// Cost is about how long a case takes, in seconds. It serves to start the longest
// ones first, so that none of them is left over when all the others are done.
func (s Scenario) Cost(c Case) int {
	cost := costBase
	if s.OwnServer() {
		cost += costServer
	}
	if c.Resume != nil {
		cost += costResume
	}
	for _, step := range c.Faults {
		cost += costOf(step.Fault)
	}
	return cost
}

func costOf(f faults.Fault) int {
	expecter, ok := f.(faults.Expecter)
	if !ok {
		return 0
	}
	for _, e := range expecter.Expects() {
		switch {
		case e.Rule == ruleSilence && e.Role == "":
			return costLink
		case e.Rule == ruleSilence:
			return costSilent
		}
	}
	return 0
}
