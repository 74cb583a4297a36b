package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"deadwire/pipeline"
	"deadwire/pipeline/jobs"
)

func (a *app) work() *cobra.Command {
	var d driver
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "work --source URL|DIR",
		Short: "Take jobs until told to stop; any number of processes on any number of hosts",
		Long: "Take jobs from the database's queue until SIGINT or SIGTERM: cards that an import or \"enqueue\" asked for, and a\n" +
			"sweep at intervals. Any number of processes, on any number of hosts, share one database.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.under(a, cmd, func(ctx context.Context, conveyor *pipeline.Conveyor) error {
				err := conveyor.Work(ctx, every)
				if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
					return printed(cmd, false, nil, fmt.Sprintf("stopped: %v\n", context.Cause(ctx)))
				}
				return fmt.Errorf("work: %w", err)
			})
		},
	}
	d.workFlags(cmd.Flags())
	cmd.Flags().DurationVar(&every, "sweep-every", 5*time.Minute, "time between two sweeps, over all processes")
	_ = cmd.MarkFlagRequired("source") // the flag was defined above
	return cmd
}

func (a *app) enqueue() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "enqueue CARD...",
		Short: "Ask the processes at work for a dispatch of the named cards",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, cards []string) error {
			if reason != jobs.CardCreate && reason != jobs.EvidenceChange {
				return fmt.Errorf("enqueue: reason must be %s or %s, not %q", jobs.CardCreate, jobs.EvidenceChange, reason)
			}
			made, err := pipeline.Enqueue(cmd.Context(), a.database, reason, cards)
			if err != nil {
				return fmt.Errorf("enqueue: %w", err)
			}
			return printed(cmd, false, nil, fmt.Sprintf("%d cards in %d jobs\n", len(cards), made))
		},
	}
	cmd.Flags().StringVar(&reason, "reason", jobs.EvidenceChange, "what happened to the cards: card-create or evidence-change")
	return cmd
}

func (a *app) cards() *cobra.Command {
	var query pipeline.CardQuery
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cards [WORD]",
		Short: "List cards with their state, by name",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				query.Like = args[0]
			}
			cards, err := pipeline.Cards(cmd.Context(), a.database, query)
			if err != nil {
				return err
			}
			var text strings.Builder
			for _, card := range cards {
				fmt.Fprintf(&text, "%s  %-10s  %s  %s\n", card.Identifier, card.Status, card.Name, card.Told())
			}
			return printed(cmd, asJSON, cards, text.String())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&query.Status, "status", "", "only unresolved, resolved or no_match cards")
	flags.StringVar(&query.After, "after", "", "only cards behind this `CARD`")
	flags.IntVar(&query.Limit, "limit", 50, "cards at most")
	flags.BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}
