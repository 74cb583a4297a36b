package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"deadwire/pipeline/reference"
)

func (a *app) reference() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reference",
		Short: "Keep the reference of official printings fresh",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.referenceImport(), a.referenceCheck())
	return cmd
}

func (a *app) referenceImport() *cobra.Command {
	var opts reference.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import FILE|URL",
		Short: "Store the printings of Scryfall bulk data (default_cards); fresh data changes nothing",
		Long: "Store the printings of Scryfall bulk data (default_cards), plain or gzip, from a file or a URL. The URL may be\n" +
			"that of the data or of its bulk-data object. Only rows that differ are written. Exit code 2 when it failed.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			done, err := reference.Import(cmd.Context(), a.database, args[0], opts)
			if err != nil {
				return &ExitError{CodeReference, fmt.Errorf("import reference: %w", err)}
			}
			text := fmt.Sprintf("%d printings: %d new, %d changed, %d retired (vintage %s)\n",
				done.Changes.Printings, done.Inserted, done.Updated, done.Retired, done.Vintage)
			if done.Fresh && done.Read == 0 {
				text = fmt.Sprintf("fresh: vintage %s is stored\n", done.Vintage)
			}
			return printed(cmd, asJSON, done, text)
		},
	}
	cmd.Flags().BoolVar(&opts.Force, "force", false, "read the data even when its vintage is stored")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	return cmd
}

func (a *app) referenceCheck() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check FILE|URL",
		Short: "Say whether the stored reference is of the source's vintage; exit code 5 when it is not",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := reference.Check(cmd.Context(), a.database, args[0], reference.Options{})
			if err != nil {
				return &ExitError{CodeReference, fmt.Errorf("check reference: %w", err)}
			}
			state := "stale"
			if found.Fresh {
				state = "fresh"
			}
			err = printed(cmd, asJSON, found, fmt.Sprintf("%s: stored %q, offered %q\n", state, found.Previous, found.Vintage))
			if err == nil && !found.Fresh {
				return &ExitError{CodeWorkLeft, errors.New("reference is stale")}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	return cmd
}
