package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"deadwire/pipeline"
)

func (a *app) parked() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "parked",
		Short: "Show or release cards whose compute killed workers",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.parkedList(), a.parkedRelease())
	return cmd
}

func (a *app) parkedList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List cards by attempts that did not end",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			attempts, err := pipeline.Parked(cmd.Context(), a.database)
			if err != nil {
				return err
			}
			var text strings.Builder
			for _, at := range attempts {
				word := "counted"
				if at.Parked {
					word = "parked"
				}
				fmt.Fprintf(&text, "%-8s %d  %s  %s  %s\n", word, at.Attempts, at.Identifier, at.Worker, at.Reason)
			}
			return printed(cmd, asJSON, attempts, text.String())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) parkedRelease() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "release [CARD...]",
		Short: "Make parked cards eligible again",
		RunE: func(cmd *cobra.Command, cards []string) error {
			if all == (len(cards) > 0) {
				return errors.New("release: name cards, or give --all")
			}
			released, err := pipeline.Release(cmd.Context(), a.database, cards)
			if err != nil {
				return err
			}
			return printed(cmd, false, nil, fmt.Sprintf("%d released\n", released))
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "release every card")
	return cmd
}
