package main

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"deadwire/harness/janitor"
)

// Row is a benchmark: one thing that is measured, or one comparison of it.
type Row struct {
	Name  string // group/what, such as pgbench-c1/watch
	Unit  string
	Limit string // the target, in words: it is judged by the reader
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
	return slices.Concat(pgbenchRows(), startRows(), cloneRows())
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

	lease  *janitor.Lease // what must not outlive a killed run
	server *server        // shared by rows; started on first use
	stops  []func(context.Context) error
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

// printTable shows each row's median, spread and ratio to the first row of its
// group, which is the yardstick.
func printTable(out io.Writer, results []Result) {
	fmt.Fprintf(out, "%-26s %12s %-8s %9s %9s %7s  %s\n", "row", "median", "unit", "min", "max", "ratio", "target")
	var yardstick float64
	group := ""
	for _, r := range results {
		if len(r.Values) == 0 {
			fmt.Fprintf(out, "%-26s not measured: %v\n", r.Name, r.Err)
			continue
		}
		middle := median(r.Values)
		if path.Dir(r.Name) != group {
			group, yardstick = path.Dir(r.Name), middle
		}
		fmt.Fprintf(out, "%-26s %12.3f %-8s %9.3f %9.3f %7.2f  %s\n",
			r.Name, middle, r.Unit, slices.Min(r.Values), slices.Max(r.Values), middle/yardstick, r.Limit)
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
