package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"deadwire/harness/report"
	"deadwire/harness/rundir"
	"deadwire/harness/verdict"
	"deadwire/scenarios"
)

func replayCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "replay [RUN|NAME|NAME/CASE]",
		Short: "Repeat a stored run's failed cases, or all if none failed, and say how often the same happened",
		Long: `Repeat a stored run's failed cases, or all of them if none failed, with the same seed,
subject, scenario file and source of PostgreSQL, and print how often they ended the
same way. Without an argument it is the latest failed run, or else the latest one; a
case is taken from the latest run. Flags replace what was stored.`,
		Example: `  deadwire replay --count 10               the latest failure, ten times
  deadwire replay latest                   the latest run, failed or not
  deadwire replay inherited-terminate/broken`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.replay(cmd.Context(), cmd.Flags(), strings.Join(args, ""))
		},
	}
	flags := cmd.Flags()
	f.register(flags)
	flags.IntVar(&f.count, "count", 1, "repeat every case `N` times")
	flags.IntVar(&f.parallel, "parallel", runtime.NumCPU(), "run `N` cases at once")
	flags.StringVar(&f.subject, "subject", "", "`BINARY` to test in place of the one that was tested")
	return cmd
}

func (f *runFlags) replay(ctx context.Context, given *pflag.FlagSet, name string) error {
	if f.count < 1 || f.parallel < 1 {
		return usageError("--count and --parallel must be at least 1")
	}
	dir, before, err := f.toReplay(name)
	if err != nil {
		return err
	}
	how, err := rundir.ReadRepeat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return usageError("%s does not say how it can be repeated: it was no `deadwire run`, or that of an older version", dir)
	}
	if err != nil {
		return usageError("%w", err)
	}
	f.take(how, given)
	jobs, err := jobsToReplay(dir, how, before)
	if err != nil {
		return err
	}
	whole, err := f.execute(ctx, repeated(jobs, f.count))
	out := io.Writer(os.Stdout)
	if f.format == "json" {
		out = os.Stderr // stdout is one object per line
	}
	for _, was := range before {
		if len(whole.Cases) > 0 {
			fmt.Fprintln(out, rate(was, whole.Cases))
		}
	}
	return err
}

// toReplay returns the folder of the run that name means, and those of its cases
// that are worth repeating, each once.
func (f *runFlags) toReplay(name string) (string, []report.Case, error) {
	run, wanted := cmp.Or(name, "latest-failed"), ""
	if _, err := rundir.Find(f.out, run); err != nil {
		run, wanted = "latest", name
	}
	dir, whole, err := stored(f.out, []string{run})
	if err != nil {
		return "", nil, err
	}
	cases := slices.DeleteFunc(whole.Cases, func(c report.Case) bool {
		return wanted != "" && c.Scenario != wanted && c.String() != wanted
	})
	if len(cases) == 0 {
		return "", nil, usageError("%s is neither a stored run nor a case of the latest one", cmp.Or(wanted, dir))
	}
	failed := slices.DeleteFunc(slices.Clone(cases), func(c report.Case) bool {
		return c.Verdict != verdict.Fail && c.Verdict != verdict.Undetermined
	})
	if len(failed) > 0 {
		cases = failed
	}
	var once []report.Case
	for _, c := range cases {
		if !slices.ContainsFunc(once, func(o report.Case) bool { return o.Name == c.Name }) {
			once = append(once, c)
		}
	}
	return dir, once, nil
}

// take takes over what was stored, except where a flag was given.
func (f *runFlags) take(how rundir.Repeat, given *pflag.FlagSet) {
	for _, flag := range []struct {
		name   string
		value  *string
		stored string
	}{
		{"seed", &f.seed, how.Seed},
		{"subject", &f.subject, how.Subject},
		{"postgres", &f.postgres, how.Postgres},
		{"postgres-image", &f.image, how.Image},
	} {
		if !given.Changed(flag.name) {
			*flag.value = flag.stored
		}
	}
	f.allowRemote = f.allowRemote || how.AllowRemote
}

func jobsToReplay(dir string, how rundir.Repeat, cases []report.Case) ([]job, error) {
	all, err := scenarios.Builtin()
	if err != nil {
		return nil, err
	}
	var jobs []job
	for _, c := range cases {
		i := slices.IndexFunc(how.Cases, func(k rundir.Failed) bool { return k.Scenario == c.Scenario && k.Case == c.Case })
		if i < 0 {
			return nil, usageError("%s: the run does not say where it came from", c.Name)
		}
		from := how.Cases[i]
		if from.File != "" && !filepath.IsAbs(from.File) {
			from.File = filepath.Join(dir, from.File) // a soak keeps its rounds in its folder
		}
		j, err := lookup(all, from)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// rate says how many of the repetitions ended as the stored case did.
func rate(was report.Case, repetitions []report.Case) string {
	same, all := 0, 0
	others := map[verdict.Verdict]int{}
	for _, c := range repetitions {
		if c.Name != was.Name {
			continue
		}
		all++
		if likeness(c) == likeness(was) {
			same++
		} else {
			others[c.Verdict]++
		}
	}
	did := map[verdict.Verdict]string{verdict.Pass: "passed again", verdict.Fail: "failed the same way", verdict.Undetermined: "stayed undetermined", verdict.Skip: "was skipped again"}
	text := fmt.Sprintf("%s %s %d of %d", was.Name, did[was.Verdict], same, all)
	var rest []string
	for _, v := range []verdict.Verdict{verdict.Pass, verdict.Fail, verdict.Undetermined, verdict.Skip} {
		if others[v] > 0 {
			rest = append(rest, fmt.Sprintf("%d %s in another way", others[v], v))
		}
	}
	if len(rest) > 0 {
		text += "; " + strings.Join(rest, ", ")
	}
	return text
}

// digits differ between two runs of the same: pids, times, run names.
var digits = regexp.MustCompile(`[0-9]+`)

// likeness is what two cases have in common that ended the same way: verdict,
// outcome, the endings that nobody expected and the broken promises, whatever
// their number and order. Where there is neither, it is the reason.
func likeness(c report.Case) string {
	var words []string
	for _, e := range c.Unexpected() {
		words = append(words, e.Rule+" of "+digits.ReplaceAllString(e.Role, "#"))
	}
	for _, f := range c.Findings {
		words = append(words, f.Rule+f.Invariant)
	}
	if len(words) == 0 && c.Verdict != verdict.Pass {
		words = append(words, digits.ReplaceAllString(c.Reason, "#"))
	}
	slices.Sort(words)
	return strings.Join(append(slices.Compact(words), string(c.Verdict), string(c.Outcome)), "\n")
}
