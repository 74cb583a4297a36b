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
	whole.Dir = dir // it may have been moved since
	return dir, whole, nil
}
