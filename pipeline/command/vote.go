package command

import (
	"errors"
	"fmt"
	"os/user"

	"github.com/spf13/cobra"

	"deadwire/pipeline"
	"deadwire/pipeline/decide"
)

func (a *app) vote() *cobra.Command {
	var ballot decide.Ballot
	var withdraw, asJSON bool
	cmd := &cobra.Command{
		Use:   "vote CARD --printing UUID|SET/NUMBER | --no-match | --withdraw",
		Short: "Say what a card shows; a person's vote and agreement settle it and all that show the same",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen := 0
			for _, given := range []bool{ballot.Printing != "", ballot.NoMatch, withdraw} {
				if given {
					chosen++
				}
			}
			if chosen != 1 {
				return errors.New("vote: give one of --printing, --no-match, --withdraw")
			}
			ballot.Card = args[0]
			if ballot.Person == "" {
				ballot.Person = me()
			}
			verdict, err := pipeline.Vote(cmd.Context(), a.database, ballot)
			if err != nil {
				return fmt.Errorf("vote: %w", err)
			}
			return printed(cmd, asJSON, verdict, fmt.Sprintf("%s is %s, with %d cards that show the same (%d changed)\n",
				verdict.Card, verdict.Status, verdict.Group-1, verdict.Changed))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&ballot.Printing, "printing", "", "the card shows `UUID|SET/NUMBER`")
	flags.BoolVar(&ballot.NoMatch, "no-match", false, "the card shows no printing of the reference")
	flags.BoolVar(&withdraw, "withdraw", false, "take your vote back")
	flags.StringVar(&ballot.Person, "as", "", "`NAME` of the voter (default: you)")
	flags.BoolVar(&ballot.Admin, "admin", false, "vote with an administrator's weight")
	flags.BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	return cmd
}

// me is the name of who runs the program, or else a word that says so.
func me() string {
	current, err := user.Current()
	if err != nil || current.Username == "" {
		return "somebody"
	}
	return current.Username
}

func (a *app) propagate() *cobra.Command {
	var run string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "propagate --run-id ID",
		Short: "Copy a run's votes to equal images, and check that no machine settles anything",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			done, err := pipeline.Propagate(cmd.Context(), a.database, run)
			if err != nil {
				return fmt.Errorf("propagate: %w", err)
			}
			err = printed(cmd, asJSON, done, fmt.Sprintf("%d cards looked at, %d votes copied, %d conflicts, %d settled\n",
				done.Cards, done.Votes, done.Conflicts, done.Settled))
			if err == nil && done.Violations > 0 {
				err = &ExitError{CodeFidelity, fmt.Errorf("propagate: machines alone would settle %d cards", done.Violations)}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&run, "run-id", "", "run `ID` whose votes are copied")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	_ = cmd.MarkFlagRequired("run-id") // the flag was defined above
	return cmd
}
