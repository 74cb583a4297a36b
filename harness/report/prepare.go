package report

import (
	"slices"

	"deadwire/harness/diagnose"
	"deadwire/harness/rundir"
	"deadwire/harness/verdict"
)

// Summarise returns the run that consists of cases, counted.
func Summarise(plan Plan, cases []Case) Run {
	run := Run{
		Schema: RunSchema, Version: plan.Version, Seed: plan.Seed, Dir: plan.Dir, Postgres: plan.Postgres,
		Cases: cases,
	}
	for _, c := range cases {
		run.Totals.Add(c.Verdict)
	}
	return run
}

// Verdict returns the judgement of the whole run. An interrupted one has not
// judged what it left out, so it is undetermined at best.
func (r Run) Verdict() verdict.Verdict {
	if r.Interrupted {
		return verdict.Merge(verdict.Undetermined, r.Totals.Verdict())
	}
	return r.Totals.Verdict()
}

// prepared returns a copy that is fit to leave the process: lists are never
// null, and text that came from the subject has its passwords masked.
func (r Run) prepared() Run {
	r.Cases = slices.Clone(r.Cases)
	for i, c := range r.Cases {
		r.Cases[i] = c.prepared()
	}
	r.Cases = orEmpty(r.Cases)
	return r
}

func (e Exec) prepared() Exec {
	e.Run = e.Run.prepared()
	e.Command = rundir.MaskAll(e.Command)
	e.Sharing = orEmpty(e.Sharing)
	return e
}

func (c Case) prepared() Case {
	c.Reason, c.Error = rundir.Mask(c.Reason), rundir.Mask(c.Error)
	if c.Problems != nil {
		c.Problems = rundir.MaskAll(c.Problems)
	}
	c.Endings = orEmpty(slices.Clone(c.Endings))
	for i := range c.Endings {
		prepareEnding(&c.Endings[i])
	}
	c.Findings = orEmpty(slices.Clone(c.Findings))
	for i := range c.Findings {
		c.Findings[i].Message = rundir.Mask(c.Findings[i].Message)
	}
	if c.Proof != nil {
		proof := *c.Proof
		proof.Error = rundir.Mask(proof.Error)
		c.Proof = &proof
	}
	return c
}

func prepareEnding(e *diagnose.Ending) {
	e.Message = rundir.Mask(e.Message)
	if e.Actor.Argv != nil {
		e.Actor.Argv = rundir.MaskAll(e.Actor.Argv)
	}
	e.HoldersBefore, e.HoldersAfter = orEmpty(e.HoldersBefore), orEmpty(e.HoldersAfter)
	e.Evidence = orEmpty(e.Evidence)
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
