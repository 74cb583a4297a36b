package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"deadwire/pipeline"
)

func (a *app) migrate() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database to the newest version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, to, err := pipeline.Migrate(cmd.Context(), a.database)
			if err != nil {
				return fmt.Errorf("migrate: %w", err)
			}
			return printed(cmd, false, nil, fmt.Sprintf("schema version %d (was %d)\n", to, from))
		},
	}
}

func (a *app) status() *cobra.Command {
	var asJSON, watch bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what is done and what the ledger says",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch {
				return a.watch(cmd, asJSON, max(every, 100*time.Millisecond))
			}
			return a.showStatus(cmd.Context(), cmd, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	cmd.Flags().BoolVar(&watch, "watch", false, "show it again and again until SIGINT or SIGTERM")
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "time between two looks")
	return cmd
}

func (a *app) showStatus(ctx context.Context, cmd *cobra.Command, asJSON bool) error {
	status, err := pipeline.ReadStatus(ctx, a.database)
	if err != nil {
		return err
	}
	return printed(cmd, asJSON, status, statusText(status))
}

// watch looks again and again, on a terminal always at the same place.
func (a *app) watch(cmd *cobra.Command, asJSON bool, every time.Duration) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	file, terminal := cmd.OutOrStdout().(*os.File)
	terminal = terminal && !asJSON && term.IsTerminal(int(file.Fd()))
	for {
		if terminal {
			_, _ = io.WriteString(file, "\x1b[H\x1b[2J") // nobody is left to tell
		}
		err := a.showStatus(ctx, cmd, asJSON)
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func statusText(status pipeline.Status) string {
	var text strings.Builder
	t := status.Totals
	fmt.Fprintf(&text, "cards      %d, %d hashed, %d extracted\n", t.Cards, t.Hashed, t.Extracted)
	fmt.Fprintf(&text, "votes      %d, %d of them no match; %d cards settled by people\n", t.Votes, t.NoMatchVotes, t.Resolved)
	fmt.Fprintf(&text, "batches    %d completed, %d failed, %d running (%d abandoned)\n", t.Completed, t.Failed, t.Running, t.Abandoned)
	fmt.Fprintf(&text, "throttled  %d\n", t.Throttled)
	if t.OpenTrips > 0 {
		fmt.Fprintf(&text, "halted     %d open trips (conveyor trip list)\n", t.OpenTrips)
	}
	for _, run := range status.Runs {
		fmt.Fprintf(&text, "  %-9s %s %s\n", run.Status, run.RunID, run.FailureReason)
	}
	return text.String()
}

// checked is the result of the command check.
type checked struct {
	OK         bool               `json:"ok"`
	Invariants []pipeline.Finding `json:"invariants"`
}

func (a *app) check() *cobra.Command {
	var asJSON, atRest bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the promises that the database can be asked about",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings, err := pipeline.Check(cmd.Context(), a.database, atRest)
			if err != nil {
				return err
			}
			result, text := judged(findings)
			err = printed(cmd, asJSON, result, text)
			if err == nil && !result.OK {
				err = &ExitError{CodeError, errors.New("check: a promise is broken")}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	cmd.Flags().BoolVar(&atRest, "at-rest", false, "no stream is running: check also that nothing is left connected or locked")
	return cmd
}

func judged(findings []pipeline.Finding) (checked, string) {
	result := checked{OK: true, Invariants: findings}
	var text strings.Builder
	for _, finding := range findings {
		word := "ok    "
		if !finding.OK {
			word, result.OK = "broken", false
		}
		fmt.Fprintf(&text, "%s  %-24s %s\n", word, finding.Invariant, finding.Promise)
		for _, breach := range finding.Breaches {
			fmt.Fprintf(&text, "          %s\n", breach)
		}
	}
	return result, text.String()
}

// worker is the mode that the pool starts; nobody else has a use for it.
func (a *app) worker() *cobra.Command {
	return &cobra.Command{
		Use:    "worker",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return pipeline.ServeWorker(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), a.options.Seam)
		},
	}
}

// printed writes a result to stdout: as one JSON object, or as text.
func printed(cmd *cobra.Command, asJSON bool, value any, text string) error {
	if !asJSON {
		_, err := io.WriteString(cmd.OutOrStdout(), text)
		return err
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(value)
}
