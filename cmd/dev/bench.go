package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"deadwire/harness/janitor"
)

// Row is a benchmark: one thing that is measured, or one comparison of it.
type Row struct {
	Name string // group/what, such as pgbench-c1/watch
	Unit string
	// Against is the row of the same group that the ratio is taken against;
	// default the group's first. Added compares what both add to the first.
	Against string
	Added   bool
	Limit   string // of the ratio, in words: it is judged by the reader
	// Prepare sets up what is measured, once, before the first round. The
	// returned function gives one value per call.
	Prepare func(context.Context, *Bench) (Measure, error)
}

// Measure gives one value in the row's unit.
type Measure func(context.Context) (float64, error)

// rows is the registry: every benchmark, in the order of the table. Rows of one
// group (the part before the slash) are measured in turns, round by round, so
// that a machine that slows down slows all of them.
func rows() []Row {
	return slices.Concat(pgbenchRows(), witnessRows(), startRows(), cloneRows(), suiteRows(), conveyorRows())
}

func benchCommand() *cobra.Command {
	var rounds int
	var seconds time.Duration
	cmd := &cobra.Command{
		Use:   "bench [GLOB...]",
		Short: "Measure against the competitors, side by side",
		Long: `Measure against the competitors, side by side: rows of one group take turns,
round by round, and the table shows medians with the spread of the rounds.
A glob chooses rows by name, such as 'pgbench-c1/*'.`,
		RunE: func(cmd *cobra.Command, globs []string) error {
			chosen, err := choose(rows(), globs)
			if err != nil {
				return err
			}
			b := &Bench{Rounds: rounds, RoundTime: seconds, Progress: cmd.ErrOrStderr()}
			results, err := b.run(cmd.Context(), chosen)
			printTable(cmd.OutOrStdout(), results)
			return err
		},
	}
	cmd.Flags().IntVar(&rounds, "rounds", 5, "rounds per row")
	cmd.Flags().DurationVar(&seconds, "time", 2*time.Second, "duration of one pgbench round")
	return cmd
}

func choose(all []Row, globs []string) ([]Row, error) {
	if len(globs) == 0 {
		return all, nil
	}
	var chosen []Row
	for _, row := range all {
		for _, glob := range globs {
			matched, err := path.Match(glob, row.Name)
			if err != nil {
				return nil, fmt.Errorf("choose rows: %w", err)
			}
			if matched || path.Dir(row.Name) == glob {
				chosen = append(chosen, row)
				break
			}
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("choose rows: none is called %v", globs)
	}
	return chosen, nil
}

// Bench is a run of benchmarks, with what its rows share.
type Bench struct {
	Rounds    int
	RoundTime time.Duration // of one pgbench round
	Progress  io.Writer

	lease    *janitor.Lease // what must not outlive a killed run
	server   *server        // shared by rows; started on first use
	conveyor *judge         // shared by conveyor's rows; prepared on first use
	stops    []func(context.Context) error
}

// Result is a row with its values, one per round.
type Result struct {
	Row
	Values []float64
	Err    error // why there are none
}

// run measures rows group by group and takes down what they share.
func (b *Bench) run(ctx context.Context, chosen []Row) (results []Result, err error) {
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	defer func() { err = joinStop(err, b.stop(ctx)) }()
	for start := 0; start < len(chosen); {
		end := start + 1
		for end < len(chosen) && path.Dir(chosen[end].Name) == path.Dir(chosen[start].Name) {
			end++
		}
		results = append(results, b.group(ctx, chosen[start:end])...)
		start = end
		if ctx.Err() != nil {
			return results, context.Cause(ctx)
		}
	}
	return results, nil
}

func (b *Bench) group(ctx context.Context, group []Row) []Result {
	results := make([]Result, len(group))
	measures := make([]Measure, len(group))
	for i, row := range group {
		results[i].Row = row
		measures[i], results[i].Err = row.Prepare(ctx, b)
	}
	for round := range b.Rounds {
		for i := range group {
			if results[i].Err != nil || ctx.Err() != nil {
				continue
			}
			fmt.Fprintf(b.Progress, "round %d of %d: %s\n", round+1, b.Rounds, group[i].Name)
			value, err := measures[i](ctx)
			results[i].Err = err
			if err == nil {
				results[i].Values = append(results[i].Values, value)
			}
		}
	}
	return results
}

// printTable shows each row's median and spread, and its ratio to another row:
// the median over the rounds, since both were measured in each of them.
func printTable(out io.Writer, results []Result) {
	fmt.Fprintf(out, "%-22s %12s %-5s %10s %10s %7s  %s\n", "row", "median", "unit", "min", "max", "ratio", "to, and target")
	for _, r := range results {
		if len(r.Values) == 0 {
			fmt.Fprintf(out, "%-22s not measured: %v\n", r.Name, r.Err)
			continue
		}
		ratio, words := r.ratio(results)
		fmt.Fprintf(out, "%-22s %12.3f %-5s %10.3f %10.3f %7.2f  %s\n",
			r.Name, median(r.Values), r.Unit, slices.Min(r.Values), slices.Max(r.Values), ratio, words)
	}
}

// ratio compares r with the row that it names, round by round, and says so in
// words; NaN when that row has no values.
func (r Result) ratio(results []Result) (float64, string) {
	first := find(results, func(other Result) bool { return path.Dir(other.Name) == path.Dir(r.Name) })
	other := first
	if r.Against != "" {
		other = find(results, func(other Result) bool { return other.Name == r.Against })
	}
	var ratios []float64
	for i, value := range r.Values {
		if i >= len(other.Values) || i >= len(first.Values) {
			break
		}
		base := other.Values[i]
		if r.Added {
			value, base = value-first.Values[i], base-first.Values[i]
		}
		ratios = append(ratios, value/base)
	}
	words := path.Base(other.Name)
	if r.Added {
		words = "added, to " + words
	}
	if r.Limit != "" {
		words += ", " + r.Limit
	}
	return median(ratios), words
}

func find(results []Result, match func(Result) bool) Result {
	if at := slices.IndexFunc(results, match); at >= 0 {
		return results[at]
	}
	return Result{}
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
