package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"deadwire/pipeline"
)

func (a *app) probe() *cobra.Command {
	var source string
	var cards int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "probe --source URL|DIR",
		Short: "Show where the time of a card goes: fetch, measure, text, store; keeps nothing",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cards < 1 {
				return errors.New("probe: --cards must be at least 1")
			}
			p, err := pipeline.Probe(cmd.Context(), a.database, source, cards)
			if err != nil {
				return fmt.Errorf("probe: %w", err)
			}
			return printed(cmd, asJSON, p, fmt.Sprintf("%d cards, %d of them failed; medians: fetch %.1f ms, measure %.1f ms, text %.1f ms, store %.1f ms\n",
				p.Cards, p.Failed, p.FetchMS, p.MeasureMS, p.TextMS, p.StoreMS))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&source, "source", "", "`URL or DIR` that images come from")
	flags.IntVar(&cards, "cards", 30, "cards to take")
	flags.BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	_ = cmd.MarkFlagRequired("source") // the flag was defined above
	return cmd
}
