package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"deadwire/harness/pg"
	"deadwire/harness/report"
	"deadwire/harness/rundir"
	"deadwire/harness/verdict"
	"deadwire/scenarios/soak"
)

// soakFlags are the flags of `deadwire soak` beside the common ones.
type soakFlags struct {
	common
	duration   time.Duration
	rounds     int
	first      int
	parallel   int
	policy     string
	keepGoing  bool
	shrinkRuns int
	shrinkFor  time.Duration
	subject    string
	ownServer  bool
	metrics    string
	program    soak.Program
	checkFile  string
}

func soakCommand() *cobra.Command {
	var f soakFlags
	cmd := &cobra.Command{
		Use:   "soak [flags] [-- CMD [ARG...]]",
		Short: "Break conveyor by a seed for as long as you say, and shrink what fails",
		Long: `soak runs round after round: faults drawn from the seed act on a run of conveyor, are
healed, a second run takes up where it was left, and the tables must come to what a
fault-free run made. A round that fails is made smaller until nothing can be left out;
what remains is written to repro.yaml, which deadwire run repeats.

With -- CMD it is a program of yours that is soaked: in each round it runs twice on a
database of its own, empty at first, which DATABASE_URL and PG* name: once while faults
act and once after they were healed. The second run must exit with 0.`,
		Example: `  deadwire soak --for 60m --seed 42
  deadwire soak --for 8h --policy release.yaml --keep-going
  deadwire soak --for 30m --check orders.sql --forbid 'panic:' -- ./worker --once
  deadwire soak --rounds 10 --first 101 --seed 42     rounds 101 to 110 of that seed`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return usageError("unexpected argument %q: the program to soak comes behind --", args[0])
			}
			f.program.Command = args
			return f.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	f.registerSoak(flags)
	f.registerProgram(flags)
	flags.DurationVar(&f.duration, "for", 10*time.Minute, "begin rounds for that long")
	flags.IntVar(&f.rounds, "rounds", 0, "end after `N` rounds (default: only by time)")
	flags.IntVar(&f.first, "first", 1, "begin with round `N`, to go on with a soak that was broken off")
	flags.IntVar(&f.parallel, "parallel", 2, "run `N` rounds at once")
	flags.StringVar(&f.policy, "policy", "", "`FILE` with weights, workload and thresholds")
	flags.BoolVar(&f.keepGoing, "keep-going", false, "count failures and go on, without shrinking them")
	flags.IntVar(&f.shrinkRuns, "shrink-runs", 60, "spend at most `N` runs on shrinking a failure; 0: none")
	flags.DurationVar(&f.shrinkFor, "shrink-for", 10*time.Minute, "spend at most that long on shrinking a failure")
	flags.StringVar(&f.subject, "subject", "", "`BINARY` to soak in place of the built-in conveyor")
	flags.StringVar(&f.metrics, "metrics", "", "serve Prometheus metrics on this loopback `ADDRESS`, such as 127.0.0.1:9187")
	flags.BoolVar(&f.ownServer, "server-faults", true, "draw crashes and restarts of the server too, in rounds with a server of their own")
	return cmd
}

func (f *soakFlags) run(ctx context.Context) (err error) {
	policy, err := f.check()
	if err != nil {
		return err
	}
	s, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	runner, err := s.runner(ctx, f.subject)
	if err != nil {
		return err
	}
	server := s.rig.Server()
	policy.Schedule.OwnServer = f.ownServer && server.Can(pg.ToRestart) == nil
	policy.Schedule.FixedSettings, policy.Schedule.Major = server.Can(pg.ToConfigure) != nil, server.Version().Major
	fmt.Printf("deadwire %s   soak for %s   seed %s   postgres %s (%s)\nrun %s\n",
		Version, f.duration, s.seed, s.rig.Server().Version(), s.rig.Server().Provider(), s.dir.Path())
	exporter := soak.NewExporter()
	stop, err := f.serveMetrics(ctx, exporter)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	began := time.Now()
	var failed []report.Case
	f.storeUnderWay(s, nil, &failed, 0)
	result, err := soak.Run(ctx, soak.Config{
		Runner: runner, Seed: s.seed, Policy: policy, For: f.duration, Rounds: f.rounds, First: f.first, Parallel: f.parallel,
		KeepGoing: f.keepGoing, ShrinkRuns: f.shrinkRuns, ShrinkFor: f.shrinkFor, Dir: s.dir.Path(),
		Done: func(o soak.Outcome) {
			exporter.Observe(o)
			f.storeUnderWay(s, &o, &failed, time.Since(began))
			fmt.Println(roundLine(time.Since(began), o))
		},
		Shrunk: func(t soak.Step) { fmt.Println(shrinkLine(time.Since(began), t)) },
	})
	interrupted := errors.Is(context.Cause(ctx), errInterrupted)
	return errors.Join(err, f.finishSoak(s, result, time.Since(began), interrupted), concludeSoak(result, interrupted))
}

// serveMetrics serves the numbers where they were asked for, and returns what ends that.
func (f *soakFlags) serveMetrics(ctx context.Context, exporter *soak.Exporter) (stop func() error, err error) {
	if f.metrics == "" {
		return func() error { return nil }, nil
	}
	at, stop, err := exporter.Serve(ctx, f.metrics)
	if err != nil {
		return nil, environment(err)
	}
	fmt.Fprintf(os.Stderr, "deadwire: metrics at http://%s/metrics\n", at)
	return stop, nil
}

// check refuses bad flags and a bad policy before anything is started.
func (f *soakFlags) check() (policy soak.Policy, err error) {
	if f.duration <= 0 || f.rounds < 0 || f.first < 1 || f.parallel < 1 || f.shrinkRuns < 0 || f.shrinkFor <= 0 {
		return policy, usageError("--for, --first, --parallel and --shrink-for must be positive, --rounds and --shrink-runs not negative")
	}
	if f.metrics != "" {
		if err := soak.CheckAddress(f.metrics); err != nil {
			return policy, usageError("--metrics: %w", err)
		}
	}
	if f.policy != "" {
		if policy, err = soak.ReadPolicy(f.policy); err != nil {
			return policy, usageError("%w", err)
		}
	}
	if err = f.checkProgram(&policy); err != nil {
		return policy, usageError("%w", err)
	}
	r := runFlags{subject: f.subject}
	err = r.checkSubject()
	f.subject = r.subject
	return policy, err
}

// roundLine is one dense line for a round; `deadwire help columns` is its legend.
func roundLine(at time.Duration, o soak.Outcome) string {
	line := fmt.Sprintf("%7.0fs  #%-5d %-12s %5.1fs %5.1fs  %s", at.Seconds(), o.N, o.Case.Verdict,
		float64(o.Case.DurationMS)/1000, float64(o.Case.RecoveryMS)/1000, marked(o))
	if o.Case.Verdict != verdict.Pass {
		line += "\n           " + oneLine(o.Case.Reason, 300)
	}
	return line
}

// marked lists the round's faults; one that was not seen to act stands in brackets.
func marked(o soak.Outcome) string {
	acted := map[string]int{}
	for _, name := range o.Case.Faults {
		acted[name]++
	}
	var words []string
	for _, name := range o.Kinds {
		if acted[name] > 0 {
			acted[name]--
			words = append(words, name)
		} else {
			words = append(words, "("+name+")")
		}
	}
	return strings.Join(words, " ")
}

func shrinkLine(at time.Duration, t soak.Step) string {
	word := ""
	if t.Kept {
		word = "kept"
	}
	return fmt.Sprintf("%7.0fs  shrink %-3d %-4s fails %d of %d  %s: %s", at.Seconds(), t.Runs, word, t.Fails, t.Of, t.Round, orNone(kindsOf(t.Round)))
}

func kindsOf(r soak.Round) (names []string) {
	for _, e := range r.Faults {
		names = append(names, e.Fault.Name())
	}
	return names
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "no fault at all"
	}
	return strings.Join(words, " ")
}

func oneLine(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// finishSoak prints what the soak came to, and records it.
func (f *soakFlags) finishSoak(s *session, r soak.Result, took time.Duration, interrupted bool) error {
	last := rundir.Last{Status: rundir.Passed, Subject: f.subject}
	for _, failure := range r.Failed {
		last.Status = rundir.FailedRun
		fmt.Print(f.failureBlock(s.dir.Path(), failure))
	}
	for _, missed := range r.Missed {
		last.Status = rundir.FailedRun
		fmt.Println("threshold missed:", missed)
	}
	state := "DONE"
	if interrupted {
		last.Status, state = rundir.Interrupted, "INTERRUPTED"
	}
	fmt.Printf("\n%s %s in %s   verdict %s   seed %s   next round %d\n", state, r.Tally.Line(), took.Round(time.Second), r.Verdict(), s.seed, r.Next)
	fmt.Print(r.Tally.Details())
	record := map[string]any{
		"schema": "deadwire.soak/1", "version": Version, "seed": s.seed, "verdict": r.Verdict(), "dir": s.dir.Path(), "postgres": s.postgres(),
		"duration_ms": took.Milliseconds(), "first": f.first, "next": r.Next, "tally": r.Tally, "line": r.Tally.Line(), "missed": r.Missed, "interrupted": interrupted, "failures": failedRounds(r),
	}
	err := errors.Join(f.storeSoak(s, r, took, interrupted, &last), rundir.WriteJSON(filepath.Join(s.dir.Path(), "soak.json"), record))
	if f.json != "" {
		err = errors.Join(err, rundir.WriteJSON(f.json, record))
	}
	return errors.Join(err, s.dir.Finish(last))
}

func concludeSoak(r soak.Result, interrupted bool) error {
	switch {
	case interrupted:
		return &exitError{code: verdict.ExitInterrupted}
	case len(r.Failed) == 0 && r.Lacking != nil:
		return environment(r.Lacking)
	case r.Verdict() == verdict.Fail:
		return &exitError{code: verdict.ExitFail}
	case r.Verdict() == verdict.Undetermined:
		fmt.Fprintln(os.Stderr, "deadwire: no fault was seen to act: nothing is proven; soak longer, or change the policy's weights")
		return &exitError{code: verdict.ExitUndetermined}
	}
	return nil
}

func columnsHelp() *cobra.Command {
	return &cobra.Command{
		Use: "columns", Short: "The columns of soak's lines",
		Long: `Each line of deadwire soak is one round:

  time    seconds since the soak began, at the round's end
  #N      number of the round: with the seed and the policy it says which faults it has
  verdict pass, fail; undetermined: no fault was seen to act; skip: a fault cannot act here
  whole   seconds that the round took
  resume  seconds that the run took which resumed after healing: the recovery
  faults  kinds of the round's faults; one in brackets was not seen to act

A policy file (--policy) may hold:

  weights:    {network.cut: 4, fork: 0}    how often a kind is drawn; 0 never
  faults_max: 3                            faults of a round at most
  swarm:      true                         switch half of the kinds off in each round
  workers:    3                            worker processes of conveyor
  cards:      18                           cards of a round
  catalogues: 4                            different catalogues that take turns
  redo:       4                            every fourth round does work again that was done (default: none)
  dispatchers: 3                           conveyors at work on a round's database at once, at most
  command:    [./worker, --once]           a program of yours in place of conveyor, as behind --
  check:      "select ... "                SQL that must return no rows in the end, as in --check's file
  expect:     "done"                       what a line of its output must match in the end
  forbid:     "panic:"                     what no line of its output may match
  thresholds: ["recovery p95 < 20s"]       conditions on` + metricsHelp(),
	}
}

func metricsHelp() string {
	var b strings.Builder
	for _, name := range soak.MetricNames() {
		fmt.Fprintf(&b, "\n    %-18s %s", name, soak.Metrics()[name])
	}
	return b.String()
}
