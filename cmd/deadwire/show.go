package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"deadwire/harness/diagnose"
	"deadwire/harness/event"
	"deadwire/harness/report"
	"deadwire/harness/report/terminal"
	"deadwire/harness/rundir"
	"deadwire/harness/verdict"
)

func showCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "show [RUN]", Short: "Show a stored run again (default: the latest)", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			_, whole, err := stored(out, args)
			if err != nil {
				return err
			}
			screen := terminal.Detect(os.Stdout, os.Stderr, os.Getenv)
			screen.Interactive = false
			reporter := report.NewMulti(terminal.New(screen, terminal.List))
			reporter.Begin(report.Plan{Version: whole.Version, Seed: whole.Seed, Dir: whole.Dir, Postgres: whole.Postgres})
			for _, c := range whole.Cases {
				reporter.CaseDone(c)
			}
			return reporter.Done(whole)
		},
	}
	cmd.Flags().StringVar(&out, "out", rundir.DefaultRoot, "`DIR` of run folders")
	return cmd
}

// stored finds a run's folder and reads its verdict.
func stored(root string, args []string) (dir string, whole report.Run, err error) {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	dir, err = rundir.Find(root, name)
	if err != nil {
		return "", whole, usageError("find run: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "verdict.json"))
	if err != nil {
		return dir, whole, usageError("run %s has no verdict: it was killed or is still going on: %w", filepath.Base(dir), err)
	}
	if err := json.Unmarshal(text, &whole); err != nil {
		return dir, whole, usageError("read verdict of %s: %w", filepath.Base(dir), err)
	}
	return dir, whole, nil
}

func recheckCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "recheck [RUN]", Short: "Diagnose the stored journals of a run with today's rules, and print what changed", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, whole, err := stored(out, args)
			if err != nil {
				return err
			}
			changed, err := recheck(cmd.OutOrStdout(), dir, whole)
			if err == nil && changed > 0 {
				return &exitError{code: verdict.ExitFail}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", rundir.DefaultRoot, "`DIR` of run folders")
	return cmd
}

func recheck(out io.Writer, dir string, whole report.Run) (changed int, err error) {
	for _, c := range whole.Cases {
		now, err := explainStored(filepath.Join(dir, c.Dir, "events.jsonl"))
		if err != nil {
			fmt.Fprintf(out, "%s: no journal: %v\n", c.Name, err)
			continue
		}
		for _, was := range c.Endings {
			for _, is := range now.Endings {
				if is.Session == was.Session && (is.Rule != was.Rule || is.Actor.Kind != was.Actor.Kind || is.Actor.PID != was.Actor.PID) {
					changed++
					fmt.Fprintf(out, "%s: session %d: was %s by %s %d, is %s by %s %d\n", c.Name, is.Session,
						was.Rule, was.Actor.Kind, was.Actor.PID, is.Rule, is.Actor.Kind, is.Actor.PID)
				}
			}
		}
	}
	_, err = fmt.Fprintf(out, "DONE %d cases rechecked, %d endings changed   seed %s\n", len(whole.Cases), changed, whole.Seed)
	return changed, err
}

func explainStored(path string) (diagnose.Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return diagnose.Report{}, err
	}
	defer func() { _ = file.Close() }() // opened for reading
	events, err := event.Read(file)
	if err != nil {
		return diagnose.Report{}, err
	}
	return diagnose.Explain(events), nil
}
