package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"deadwire/harness/witness"
)

//go:embed trials/trial.*
var trialPrograms embed.FS

// trialsFlags choose the trials.
type trialsFlags struct {
	n, healthy, parallel int
	seed, witness, shape string
	prove                bool
}

func trialsCommand() *cobra.Command {
	var f trialsFlags
	cmd := &cobra.Command{
		Use:   "trials",
		Short: "Try the attribution on random shapes, languages and timings whose programs confess",
		Long: `Each trial is a program in one of the languages installed here, which does one of the things that end
a session of another process, at a random moment, plain or over TLS, and says which process did it. Healthy
ones do what looks alike and is right. The diagnosis must name the confessed process, and find nothing wrong
in the healthy ones.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.n, "n", 1000, "how many guilty trials")
	flags.IntVar(&f.healthy, "healthy", 1000, "how many healthy trials")
	flags.IntVar(&f.parallel, "parallel", 4, "how many at once")
	flags.StringVar(&f.seed, "seed", "1", "text from which all choices follow")
	flags.StringVar(&f.witness, "witness", "exact", "exact, holders or defer: with the last two nobody may be named wrongly")
	flags.StringVar(&f.shape, "shape", "", "only trials of this shape, such as child-close")
	flags.BoolVar(&f.prove, "prove", false, "after each fork.inherited-terminate run the program again with only that act suppressed, which it must survive")
	return cmd
}

// language is one that trials can be written in.
type language struct {
	name    string
	command []string // before the program's file
	probe   []string // succeeds where its driver is installed
	file    string
	driver  string // if the program has a choice
}

func languages() []language {
	return []language{
		{"python", []string{"/usr/bin/python3"}, []string{"-c", "import psycopg2"}, "trial.py", "psycopg2"},
		{"psycopg3", []string{"/usr/bin/python3"}, []string{"-c", "import psycopg"}, "trial.py", "psycopg"},
		{"perl", []string{"perl"}, []string{"-MDBD::Pg", "-e", "1"}, "trial.pl", ""},
		{"ruby", []string{"ruby"}, []string{"-e", "require 'pg'"}, "trial.rb", ""},
		{"php", []string{"php"}, []string{"-r", "exit(function_exists('pg_connect') && function_exists('pcntl_fork') && function_exists('posix_kill') ? 0 : 1);"}, "trial.php", ""},
	}
}

// here reports whether the language and its driver are installed.
func (l language) here(ctx context.Context) bool {
	args := slices.Concat(l.command[1:], l.probe)
	return exec.CommandContext(ctx, l.command[0], args...).Run() == nil
}

// plan is one trial: everything that is random about it.
type plan struct {
	number        int
	shape         shape
	language      language
	tls           bool
	before, after time.Duration
	guarded       bool // the second time: the act is suppressed
}

func (p plan) String() string {
	wire := "plain"
	if p.tls {
		wire = "TLS"
	}
	again := ""
	if p.guarded {
		again = ", guarded"
	}
	return fmt.Sprintf("%s in %s, %s, %v before, %v after%s", p.shape.name, p.language.name, wire, p.before, p.after, again)
}

// plans draws n trials. The same seed, languages and number give the same plans.
func (f *trialsFlags) plans(installed []language) []plan {
	sum := fnv.New64a()
	_, _ = io.WriteString(sum, f.seed) // a hash takes everything
	random := rand.New(rand.NewPCG(sum.Sum64(), 0))
	var all []plan
	for number := range f.n + f.healthy {
		p := plan{number: number, language: installed[random.IntN(len(installed))], tls: random.IntN(2) == 0}
		fits := slices.DeleteFunc(shapes(), func(s shape) bool {
			return f.shape != "" && s.name != f.shape || !s.here() || s.healthy != (number >= f.n) || !slices.Contains(s.languages, p.language.name) || s.plain && p.tls
		})
		if len(fits) == 0 { // another language's, or the other kind
			continue
		}
		p.shape = fits[random.IntN(len(fits))]
		p.before = time.Duration(random.IntN(5000)) * time.Microsecond
		p.after = time.Duration(random.IntN(5000)) * time.Microsecond
		all = append(all, p)
	}
	return all
}

func (f *trialsFlags) run(ctx context.Context, out io.Writer) (err error) {
	if f.witness != witness.Exact && f.witness != witness.Holders && f.witness != deferring {
		return fmt.Errorf("--witness=%s: want exact, holders or defer", f.witness)
	}
	var installed []language
	for _, l := range languages() {
		if l.here(ctx) {
			installed = append(installed, l)
		}
	}
	if len(installed) == 0 {
		return errors.New("no language with a PostgreSQL driver is installed")
	}
	if f.prove && f.witness != witness.Exact {
		return fmt.Errorf("--prove: only --witness=exact accuses anybody")
	}
	court, err := newCourt(ctx, f.witness)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, court.close(ctx)) }()
	score := newScore()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(f.parallel)
	for _, p := range f.plans(installed) {
		group.Go(func() error {
			said, err := court.try(ctx, p)
			if f.prove && err == nil && said == "" && p.shape.rule == inherited {
				p.guarded = true
				said, err = court.try(ctx, p)
			}
			if err != nil {
				return fmt.Errorf("trial %d, %s: %w", p.number, p, err)
			}
			score.add(out, p, said)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return score.print(out, f.seed)
}

// score counts the trials by language, wire and kind.
type score struct {
	mu           sync.Mutex
	right, total map[string]int
}

func newScore() *score { return &score{right: map[string]int{}, total: map[string]int{}} }

// add takes in what was wrong with a trial's diagnosis; "" for nothing.
func (s *score) add(out io.Writer, p plan, wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind, wire := "guilty", "plain"
	if p.shape.healthy {
		kind = "healthy"
	}
	if p.tls {
		wire = "TLS"
	}
	for _, key := range []string{kind + "\t" + p.language.name + "\t" + wire, kind + "\tall\tall"} {
		s.total[key]++
		if wrong == "" {
			s.right[key]++
		}
	}
	if wrong != "" {
		fmt.Fprintf(out, "WRONG trial %d: %s: %s\n", p.number, p, wrong)
	}
}

func (s *score) print(out io.Writer, seed string) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "kind\tlanguage\twire\tright\tof")
	wrong := 0
	var keys []string
	for key := range s.total {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		fmt.Fprintf(table, "%s\t%d\t%d\n", key, s.right[key], s.total[key])
	}
	for _, kind := range []string{"guilty", "healthy"} {
		wrong += s.total[kind+"\tall\tall"] - s.right[kind+"\tall\tall"]
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "DONE %d wrong   seed %s\n", wrong, seed)
	if wrong > 0 {
		return fmt.Errorf("%d trials were judged wrongly", wrong)
	}
	return nil
}

// extractTrials writes the programs where the languages find them.
func extractTrials(dir string) error {
	files, err := trialPrograms.ReadDir("trials")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := trialPrograms.ReadFile("trials/" + file.Name())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file.Name()), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
