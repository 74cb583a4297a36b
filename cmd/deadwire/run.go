package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"deadwire/harness/diagnose"
	"deadwire/harness/report"
	"deadwire/harness/rundir"
	"deadwire/harness/verdict"
	"deadwire/scenarios"
)

// runFlags are the flags of `deadwire run` beside the common ones.
type runFlags struct {
	common
	count      int
	parallel   int
	failFast   bool
	lastFailed bool
	subject    string
	prove      bool
}

func runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [NAME|GLOB|NAME/CASE|FILE.yaml|FILE.yaml/CASE ...]",
		Short: "Run scenarios; without an argument all built-in ones",
		Example: `  deadwire run                                  everything
  deadwire run 'connection-*' --parallel 1      one after the other
  deadwire run inherited-terminate/broken       one case
  deadwire run my-scenario.yaml --seed 42       a scenario of your own`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	f.register(flags)
	flags.IntVar(&f.count, "count", 1, "run every case `N` times")
	flags.IntVar(&f.parallel, "parallel", 3*runtime.NumCPU(), "run `N` cases at once")
	flags.BoolVarP(&f.failFast, "fail-fast", "x", false, "stop at the first failure")
	flags.BoolVar(&f.lastFailed, "last-failed", false, "run only what failed or was not run last time, with its seed")
	flags.BoolVar(&f.prove, "prove", false, "run a case with an accused process again, with only its act suppressed")
	flags.StringVar(&f.subject, "subject", "", "`BINARY` to test in place of the built-in conveyor")
	return cmd
}

// job is one case to run.
type job struct {
	scenario  scenarios.Scenario
	c         scenarios.Case
	iteration int
	file      string // absolute path of the scenario's file; empty for a built-in one
}

func (j job) name() report.Name { return report.Name{Scenario: j.scenario.Name, Case: j.c.Name} }

func (f *runFlags) run(ctx context.Context, args []string) error {
	if f.count < 1 || f.parallel < 1 {
		return usageError("--count and --parallel must be at least 1")
	}
	jobs, err := f.jobs(args)
	if err != nil {
		return err
	}
	_, err = f.execute(ctx, jobs)
	return err
}

// execute runs the jobs and returns what it reported.
func (f *runFlags) execute(ctx context.Context, jobs []job) (whole report.Run, err error) {
	reporter, err := f.reporters()
	if err != nil {
		return whole, err
	}
	if err := f.checkSubject(); err != nil {
		return whole, err
	}
	began := time.Now()
	s, err := f.open(ctx)
	if err != nil {
		return whole, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	runner, err := s.runner(ctx, f.subject)
	if err != nil {
		return whole, err
	}
	runner.Prove = f.prove
	f.seed = s.seed
	if err := s.dir.WriteRepeat(f.repeat(jobs)); err != nil {
		return whole, err
	}
	reporter.Begin(s.plan(jobs))
	cases := f.all(ctx, runner, reporter, jobs)
	whole = report.Run{
		Schema: report.RunSchema, Version: Version, Seed: s.seed, Dir: s.dir.Path(), Postgres: s.postgres(),
		DurationMS: time.Since(began).Milliseconds(), Cases: cases, Interrupted: errors.Is(context.Cause(ctx), errInterrupted),
	}
	for _, c := range cases {
		whole.Totals.Add(c.Verdict)
	}
	return whole, errors.Join(f.finish(s, whole, jobs), reporter.Done(whole), conclude(whole, runner.Lacking()))
}

// repeat says how the jobs can be run again, each once.
func (f *runFlags) repeat(jobs []job) rundir.Repeat {
	r := rundir.Repeat{Seed: f.seed, Subject: f.subject, Postgres: passwordless(f.postgres), Image: f.image, AllowRemote: f.allowRemote}
	for _, j := range jobs {
		c := rundir.Failed{File: j.file, Scenario: j.name().Scenario, Case: j.name().Case, Seed: f.seed}
		if !slices.Contains(r.Cases, c) {
			r.Cases = append(r.Cases, c)
		}
	}
	return r
}

// all runs the jobs, f.parallel at a time, and returns what was run, in order.
func (f *runFlags) all(ctx context.Context, runner *scenarios.Runner, reporter report.Reporter, jobs []job) []report.Case {
	results := make([]*report.Case, len(jobs))
	var failed atomic.Bool
	var group errgroup.Group
	group.SetLimit(f.parallel)
	for _, n := range longestFirst(jobs) {
		j := jobs[n]
		group.Go(func() error {
			if ctx.Err() != nil || (f.failFast && failed.Load()) {
				return nil
			}
			reporter.CaseStarted(j.name())
			c := guarded(ctx, runner, j)
			c.Again = f.again(j)
			if c.Verdict == verdict.Fail {
				failed.Store(true)
			}
			if ctx.Err() != nil && c.Verdict != verdict.Pass {
				return nil // cut short by the user, not judged
			}
			results[n] = &c
			reporter.CaseDone(c)
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors: a case carries its own
	var cases []report.Case
	for n, c := range results {
		switch {
		case c != nil:
			cases = append(cases, *c)
		case ctx.Err() != nil:
			cases = append(cases, f.cutShort(jobs[n]))
		}
	}
	return cases
}

// cutShort stands for a case that was not judged because the user interrupted the
// run: readers of the report shall not take it for one that was not chosen.
func (f *runFlags) cutShort(j job) report.Case {
	return report.Case{
		Name: j.name(), Iteration: j.iteration, Verdict: verdict.Undetermined, NotRun: true,
		Reason: "interrupted before it was judged", Again: f.again(j),
		Endings: []diagnose.Ending{}, Findings: []diagnose.Finding{},
	}
}

// longestFirst returns the order in which jobs are started, as indices: a long one
// that began last would be waited for alone.
func longestFirst(jobs []job) []int {
	order := make([]int, len(jobs))
	for n := range jobs {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(jobs[b].scenario.Cost(jobs[b].c), jobs[a].scenario.Cost(jobs[a].c))
	})
	return order
}

// guarded turns a panic of ours into an undetermined case, so that the other
// cases and the record survive it.
func guarded(ctx context.Context, runner *scenarios.Runner, j job) (c report.Case) {
	defer func() {
		if cause := recover(); cause != nil {
			c = report.Case{
				Name: j.name(), Iteration: j.iteration, Verdict: verdict.Undetermined,
				Reason: fmt.Sprintf("a bug in deadwire: %v\n%s", cause, debug.Stack()),
			}
		}
	}()
	iteration := j.iteration
	return runner.Run(ctx, j.scenario, j.c, iteration)
}

// finish records the run's end beside its evidence.
func (f *runFlags) finish(s *session, whole report.Run, jobs []job) error {
	last := rundir.Last{Run: s.dir.Name(), Status: rundir.Passed, Subject: f.subject}
	ran := map[report.Name]verdict.Verdict{}
	for _, c := range whole.Cases {
		ran[c.Name] = verdict.Merge(ran[c.Name], c.Verdict)
	}
	for _, j := range jobs {
		if v, ok := ran[j.name()]; !ok || v == verdict.Fail || v == verdict.Undetermined {
			last.Failed = append(last.Failed, rundir.Failed{File: j.file, Scenario: j.name().Scenario, Case: j.name().Case, Seed: s.seed})
			ran[j.name()] = verdict.Pass // once is enough
		}
	}
	if len(last.Failed) > 0 {
		last.Status = rundir.FailedRun
	}
	if whole.Interrupted {
		last.Status = rundir.Interrupted
	}
	return errors.Join(report.WriteRun(filepath.Join(s.dir.Path(), "verdict.json"), whole), s.dir.Finish(last))
}

// conclude turns the verdicts into the exit code. What the machine lacked is
// told from what a case left open.
func conclude(whole report.Run, lacking error) error {
	code := whole.Totals.ExitCode()
	switch {
	case whole.Interrupted:
		code = verdict.ExitInterrupted
	case lacking != nil && code == verdict.ExitUndetermined:
		return environment(lacking)
	}
	if code == verdict.ExitPass {
		return nil
	}
	return &exitError{code: code}
}
