package command

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"deadwire/pipeline"
)

func (a *app) trip() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trip",
		Short: "Show or resolve the trips that halt all work",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.tripList(), a.tripResolve())
	return cmd
}

func (a *app) tripList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the newest trips, open ones first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			trips, err := pipeline.Trips(cmd.Context(), a.database)
			if err != nil {
				return err
			}
			var text strings.Builder
			for _, trip := range trips {
				state := "open"
				if trip.AcknowledgedAt != nil {
					state = "closed"
				}
				fmt.Fprintf(&text, "%-6s %s  %s  %s  %s %s\n", state, trip.TripID, trip.TrippedAt.UTC().Format(time.RFC3339), trip.Bar, trip.Detail, trip.Note)
			}
			return printed(cmd, asJSON, trips, text.String())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) tripResolve() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:   "resolve TRIP --note WHY",
		Short: "Acknowledge a trip, so that work may go on; starts nothing",
		Long: "Acknowledge a trip, so that work may go on. It starts nothing. After a lockout, start every process anew that\n" +
			"met it as well: each remembers it for its life.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := pipeline.ResolveTrip(cmd.Context(), a.database, args[0], note)
			if err != nil {
				return fmt.Errorf("resolve trip: %w", err)
			}
			return printed(cmd, false, nil, args[0]+" resolved\n")
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "why work may go on")
	_ = cmd.MarkFlagRequired("note") // the flag was defined above
	return cmd
}
