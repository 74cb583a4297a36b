package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"deadwire/harness/report"
	"deadwire/harness/report/terminal"
	"deadwire/harness/rundir"
)

func showCommand() *cobra.Command {
	var out string
	var session int
	var timeline bool
	cmd := &cobra.Command{
		Use: "show [RUN]", Short: "Show a stored run again (default: the latest)", Args: cobra.MaximumNArgs(1),
		Example: `  deadwire show                              the latest run
  deadwire show latest-failed                the latest one that failed
  deadwire show --session 1 --timeline       all events of one session, in the order of time`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, whole, err := stored(out, args)
			switch {
			case err != nil:
				return err
			case timeline != (session > 0) || session < 0:
				return usageError("--timeline and --session go together: give both, with the number of a session from 1")
			case timeline:
				return showTimeline(cmd.OutOrStdout(), dir, whole, session)
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
	cmd.Flags().IntVar(&session, "session", 0, "number `N` of a session, as reports name it")
	cmd.Flags().BoolVar(&timeline, "timeline", false, "print that session's events in the order of time")
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
	path := filepath.Join(dir, rundir.VerdictName)
	text, err := os.ReadFile(path)
	if err != nil {
		return dir, whole, usageError("run %s has no verdict: it was killed or is still going on: %w", filepath.Base(dir), err)
	}
	if err := json.Unmarshal(text, &whole); err != nil {
		return dir, whole, usageError("read verdict of %s: %w", filepath.Base(dir), err)
	}
	if err := rundir.CheckSchema(path, whole.Schema, report.RunSchema, report.ExecSchema); err != nil {
		return dir, whole, usageError("%w: %s", err, "look at it with the version of deadwire that wrote it")
	}
	whole.Dir = absolute(dir) // it may have been moved since
	return dir, whole, nil
}
