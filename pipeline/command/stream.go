package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"deadwire/pipeline"
	"deadwire/pipeline/dispatch"
)

func (a *app) stream() *cobra.Command {
	var d driver
	cmd := &cobra.Command{
		Use:   "stream --source URL|DIR",
		Short: "Work through the catalogue, batch by batch, until nothing is eligible",
		Long: "Work through the catalogue, batch by batch, until nothing is eligible. A stream that was ended goes on at its\n" +
			"scope's mark; it is complete only when it has seen the whole scope.\n\n" + exitTable,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.pass(a, cmd, (*pipeline.Conveyor).Stream)
		},
	}
	d.scopeFlags(cmd)
	_ = cmd.MarkFlagRequired("source") // the flag was defined above
	return cmd
}

// exitTable is part of the help of the commands that dispatch.
const exitTable = "Exit codes: 0 nothing is left to do, 1 error, 2 reference failed, 3 halted by the envelope or locked out,\n" +
	"4 no slot or scope was free, 5 work is left, 6 disabled, 7 a machine's votes alone changed a card."

// plan prints what a stream would do.
func (d *driver) plan(a *app, cmd *cobra.Command) error {
	return d.under(a, cmd, func(ctx context.Context, conveyor *pipeline.Conveyor) error {
		plan, err := conveyor.Plan(ctx)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%s: %d cards to do in %d batches (%d to extract, %d only to decide, %d to park), from behind card %d; nothing was written\n",
			plan.Scope, plan.Cards, plan.Batches, plan.Extraction, plan.Decision, plan.Parking, plan.Position)
		if plan.Trip != "" {
			text += "halted by open trip " + plan.Trip + "\n"
		}
		return printed(cmd, d.asJSON, plan, text)
	})
}

func (a *app) sweep() *cobra.Command {
	var d driver
	cmd := &cobra.Command{
		Use:   "sweep --source URL|DIR",
		Short: "Take up what streams and events left behind, until a whole lap found nothing",
		Long: "Take up what streams and events left behind: failed fetches, throttled and lost batches. Any number of sweeps\n" +
			"and streams may run at once. A sweep waits for no slot; the next one goes on where it ended.\n\n" + exitTable,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.pass(a, cmd, (*pipeline.Conveyor).Sweep)
		},
	}
	d.passFlags(cmd.Flags())
	_ = cmd.MarkFlagRequired("source") // the flag was defined above
	return cmd
}

func (a *app) shakedown() *cobra.Command {
	var d driver
	var before string
	cmd := &cobra.Command{
		Use:   "shakedown --source URL|DIR --before TIME",
		Short: "Extract anew all evidence from before a point in time, taking nothing over",
		Long: "Extract anew all evidence from before a point in time, taking nothing over from what is stored. Ended in the\n" +
			"middle, the same command goes on: what it did is not from before TIME any more.\n\n" + exitTable,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			d.cfg.Before, err = time.Parse(time.RFC3339, before)
			if err != nil || d.cfg.Before.After(time.Now()) {
				return errors.New(`before must be a time in the past, such as "2026-01-31T18:00:00Z"`)
			}
			return d.pass(a, cmd, (*pipeline.Conveyor).Stream)
		},
	}
	d.scopeFlags(cmd)
	cmd.Flags().StringVar(&before, "before", "", "`TIME` (RFC 3339): evidence from before it is computed again")
	_ = cmd.MarkFlagRequired("source") // the flags were defined above
	_ = cmd.MarkFlagRequired("before")
	return cmd
}

// streamed is the result of a command that dispatches.
type streamed struct {
	dispatch.Summary
	ExitCode     int    `json:"exit_code"`
	Error        string `json:"error,omitempty"`
	FailedLedger string `json:"failed_ledger,omitempty"`
	LedgerState  string `json:"ledger_state,omitempty"`
}

func (s streamed) text() string {
	return fmt.Sprintf("%s: run %s, %d batches, %d cards, %d extracted, %d transferred, %d votes, %d no match, %d propagated, %d skipped, %d fetch failures, %d damaged, %d parked, %.2f s\n",
		s.Status, s.Run, s.Batches, s.Cards, s.Extracted, s.Transferred, s.Votes, s.NoMatches, s.Propagated, s.Skips, s.FetchFailures, s.Damaged, s.Parked, s.ElapsedS)
}
