package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"deadwire/harness/report"
	"deadwire/harness/rundir"
	"deadwire/harness/verdict"
	"deadwire/scenarios/soak"
)

// storeSoak writes what show, recheck and replay read: the rounds that failed, as
// cases of a run, and how each can be repeated. It adds to last what failed.
func (f *soakFlags) storeSoak(s *session, r soak.Result, took time.Duration, interrupted bool, last *rundir.Last) error {
	how := rundir.Repeat{Seed: s.seed, Subject: f.subject, Postgres: passwordless(f.postgres), Image: f.image, AllowRemote: f.allowRemote}
	whole := report.Run{
		Schema: report.RunSchema, Version: Version, Seed: s.seed, Dir: s.dir.Path(), Postgres: s.postgres(),
		DurationMS: took.Milliseconds(), Interrupted: interrupted, Totals: r.Tally.Rounds,
	}
	for _, failure := range r.Failed {
		c := failure.Case
		if c.Dir == "" {
			continue // it left nothing that could be looked at
		}
		named := rundir.Failed{File: soak.RoundFile(c), Scenario: c.Scenario, Case: c.Name.Case, Seed: s.seed}
		how.Cases = append(how.Cases, named)
		named.File = filepath.Join(s.dir.Path(), named.File)
		last.Failed = append(last.Failed, named)
		c.Again = f.again(named.File)
		whole.Cases = append(whole.Cases, c)
	}
	return errors.Join(s.dir.WriteRepeat(how), report.WriteRun(s.dir.File(rundir.VerdictName), whole))
}

// storeUnderWay writes what show and recheck read of a soak that is still going on, so
// that its folder can be read whenever it is killed. A disk that is full is reported
// with the round whose files did not fit either.
func (f *soakFlags) storeUnderWay(s *session, o *soak.Outcome, failed *[]report.Case, took time.Duration) {
	whole := report.Run{
		Schema: report.RunSchema, Version: Version, Seed: s.seed, Dir: s.dir.Path(), Postgres: s.postgres(),
		DurationMS: took.Milliseconds(), Interrupted: true,
	}
	if o != nil {
		whole.Totals = o.Tally.Rounds
		if o.Case.Verdict == verdict.Fail {
			*failed = append(*failed, o.Case)
		}
	}
	whole.Cases = *failed
	_ = report.WriteRun(s.dir.File(rundir.VerdictName), whole)
}

// failedRound is a failed round in a soak's record.
type failedRound struct {
	Round  int    `json:"round"`
	Before string `json:"before"` // its size
	After  string `json:"after"`  // the size of what was shrunk
	Runs   int    `json:"runs"`   // that shrinking took
	Again  int    `json:"again"`  // of these:
	Of     int    `json:"of"`     // what remains failed so often when it was tried
	Repro  string `json:"repro,omitempty"`
}

func failedRounds(r soak.Result) []failedRound {
	rounds := []failedRound{}
	for _, f := range r.Failed {
		rounds = append(rounds, failedRound{f.N, f.Round.String(), f.Small.String(), f.Runs, f.Again, f.Of, f.Repro})
	}
	return rounds
}

// again returns the shell command that runs a round again.
func (f *soakFlags) again(file string) string {
	words := append(ourselves(), "run", absolute(file))
	if f.subject != "" {
		words = append(words, "--subject", f.subject)
	}
	for n, word := range words {
		words[n] = quoted(word)
	}
	return strings.Join(words, " ")
}

// failureBlock says what failed, where to look, and how to see it again.
func (f *soakFlags) failureBlock(dir string, failure soak.Failure) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nFAIL  round %d\n  Broken   %s\n", failure.N, oneLine(failure.Case.Reason, 600))
	if failure.Case.Error != "" {
		fmt.Fprintf(&b, "  Error    %s\n", oneLine(failure.Case.Error, 300))
	}
	fmt.Fprintf(&b, "  look     %s\n", filepath.Join(dir, failure.Case.Dir))
	switch {
	case failure.Repro == "":
		fmt.Fprintf(&b, "  again    %s\n", f.again(filepath.Join(dir, soak.RoundFile(failure.Case))))
		return b.String()
	case failure.Again == 0:
		fmt.Fprintf(&b, "  shrunk   not at all: it did not fail in any of %d more runs\n", failure.Of)
	default:
		fmt.Fprintf(&b, "  shrunk   from %s\n           to   %s: %s\n           in %d runs; what remains failed %d of %d times\n",
			failure.Round, failure.Small, orNone(kindsOf(failure.Small)), failure.Runs, failure.Again, failure.Of)
	}
	fmt.Fprintf(&b, "  again    %s\n", f.again(failure.Repro))
	return b.String()
}
