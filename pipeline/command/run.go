package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"deadwire/pipeline"
)

func (a *app) run() *cobra.Command {
	var d driver
	var location string
	cmd := &cobra.Command{
		Use:   "run --source URL|DIR",
		Short: "A whole pass: reference, stream, equal images, and the check that machines alone settle nothing",
		Long: "A whole pass: refresh the reference when --reference names newer data, work through the catalogue, copy verdicts\n" +
			"to equal images, and check that machines alone would settle nothing.\n\n" + exitTable,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.dryRun {
				return d.plan(a, cmd)
			}
			return d.under(a, cmd, func(ctx context.Context, conveyor *pipeline.Conveyor) error {
				passed, err := conveyor.Pass(ctx, location)
				if _, stage0 := errors.AsType[*pipeline.ReferenceError](err); stage0 {
					return &ExitError{CodeReference, fmt.Errorf("run: %w", err)}
				}
				return d.passed(cmd, passed, err)
			})
		},
	}
	d.scopeFlags(cmd)
	cmd.Flags().StringVar(&location, "reference", "", "`FILE or URL` of Scryfall bulk data to be fresh with first")
	_ = cmd.MarkFlagRequired("source") // the flag was defined above
	return cmd
}

// passed prints what a pass did, whatever its ending.
func (d *driver) passed(cmd *cobra.Command, passed pipeline.Passed, err error) error {
	d.progress.clear()
	if err == nil {
		err = ended("run", passed.Summary)
	}
	if violations := passed.Propagation.Violations; err == nil && violations > 0 {
		err = &ExitError{CodeFidelity, fmt.Errorf("machines alone would settle %d cards", violations)}
	}
	result := struct {
		pipeline.Passed
		ExitCode int    `json:"exit_code"`
		Error    string `json:"error,omitempty"`
	}{Passed: passed, ExitCode: ExitCode(err)}
	if err != nil {
		result.Error = err.Error()
		err = fmt.Errorf("run: %w", err)
	}
	text := streamed{Summary: passed.Summary}.text()
	for _, agent := range slices.Sorted(maps.Keys(passed.Channels)) {
		text += fmt.Sprintf("  %6d votes by %s\n", passed.Channels[agent], agent)
	}
	text += fmt.Sprintf("  %6d votes copied to equal images, %d conflicts\n", passed.Propagation.Votes, passed.Propagation.Conflicts)
	// The ledger is written already: a reader who left takes nothing back.
	_ = printed(cmd, d.asJSON, result, text)
	return err
}
