package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"deadwire/harness/diagnose"
	"deadwire/harness/report"
	"deadwire/harness/rundir"
	"deadwire/harness/verdict"
	"deadwire/scenarios"
)

func recheckCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "recheck [RUN]", Short: "Judge a stored run again by today's rules, and print what changed", Args: cobra.MaximumNArgs(1),
		Long: `Judge a stored run again by today's rules and promises: nothing is started, only its
journals and snapshots are read. What changed is printed.

It exits with the code that the run would end with today, and with 1 if a verdict,
an ending or a finding changed.`,
		Example: `  deadwire recheck                     the latest run
  deadwire recheck latest-failed
  deadwire recheck path/to/a/run/folder`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, whole, err := stored(out, args)
			if err != nil {
				return err
			}
			return recheck(cmd.OutOrStdout(), dir, whole)
		},
	}
	cmd.Flags().StringVar(&out, "out", rundir.DefaultRoot, "`DIR` of run folders")
	return cmd
}

// recheck prints what today's judgement changes, and ends with its exit code.
func recheck(out io.Writer, dir string, whole report.Run) error {
	var totals verdict.Totals
	var tally changes
	for _, was := range whole.Cases {
		is, err := rejudged(dir, was)
		if err != nil {
			fmt.Fprintf(out, "%s: its verdict %s stands: %v\n", was.Name, was.Verdict, err)
		}
		totals.Add(is.Verdict)
		tally.print(out, was, is)
	}
	_, err := fmt.Fprintf(out, "DONE %d cases rechecked: %d verdicts, %d endings, %d findings changed   verdict %s   seed %s\n",
		len(whole.Cases), tally.verdicts, tally.endings, tally.findings, totals.Verdict(), whole.Seed)
	code := totals.ExitCode()
	if tally != (changes{}) {
		code = verdict.ExitFail
	}
	if err != nil || code == verdict.ExitPass {
		return err
	}
	return &exitError{code: code}
}

// rejudged returns the case as today's rules see it. Where only the journal is
// stored, the endings alone are explained again; the error says why.
func rejudged(dir string, was report.Case) (report.Case, error) {
	is, err := scenarios.Recheck(dir, was)
	if err == nil {
		return is, nil
	}
	is = was
	if !errors.Is(err, scenarios.ErrNoFacts) || was.Dir == "" || !filepath.IsLocal(was.Dir) {
		return is, err
	}
	events, journalErr := rundir.ReadEvents(filepath.Join(dir, was.Dir))
	if journalErr != nil {
		return is, errors.Join(err, journalErr)
	}
	is.Endings = diagnose.Explain(events).Endings
	return is, err
}

// changes counts what a recheck found otherwise.
type changes struct{ verdicts, endings, findings int }

func (c *changes) print(out io.Writer, was, is report.Case) {
	if was.Verdict != is.Verdict {
		c.verdicts++
		fmt.Fprintf(out, "%s: was %s, is %s\n", was.Name, said(was), said(is))
	}
	c.endings += difference(out, was.Name, endingLines(was), endingLines(is))
	c.findings += difference(out, was.Name, findingLines(was), findingLines(is))
}

func said(c report.Case) string {
	if c.Verdict == verdict.Pass {
		return string(c.Verdict)
	}
	return string(c.Verdict) + " (" + c.Said() + ")"
}

// difference prints and counts the lines that only one of two lists has.
func difference(out io.Writer, name report.Name, was, is []string) (n int) {
	for _, line := range was {
		if !slices.Contains(is, line) {
			n++
			fmt.Fprintf(out, "%s: no longer: %s\n", name, line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			n++
			fmt.Fprintf(out, "%s: now: %s\n", name, line)
		}
	}
	return n
}

func endingLines(c report.Case) (lines []string) {
	for _, e := range c.Endings {
		lines = append(lines, fmt.Sprintf("%s by %s, manner %s, state %s, certainty %s", report.Title(e), report.Actor(e.Actor), e.Manner, e.State, e.Certainty))
	}
	return lines
}

func findingLines(c report.Case) (lines []string) {
	for _, f := range c.Findings {
		lines = append(lines, report.Broken(f))
	}
	return lines
}
