package command

import (
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/spf13/cobra"

	"deadwire/pipeline"
	"deadwire/pipeline/cardgen"
)

func (a *app) catalog() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "catalog",
		Short: "Make or import a catalogue of card images",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(generate(), a.imports())
	return cmd
}

func generate() *cobra.Command {
	var seed, out string
	var asJSON bool
	spec := cardgen.Default(24, 0)
	cmd := &cobra.Command{
		Use:   "generate --cards N --seed S --out DIR",
		Short: "Render a seeded catalogue with its ground truth",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec.Seed = seedOf(seed)
			made, err := cardgen.Write(cmd.Context(), out, spec)
			if err != nil {
				return err
			}
			return printed(cmd, asJSON, made, fmt.Sprintf("%d cards of %d printings in %s, %d damaged, %d twins, %d near twins\n",
				made.Cards, made.Printings, out, made.Damaged, made.Twins, made.NearTwins))
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&spec.Cards, "cards", spec.Cards, "number of cards")
	flags.StringVar(&seed, "seed", "1", "a number, or any word such as a revision")
	flags.StringVar(&out, "out", "", "`DIR` to write to")
	flags.Float64Var(&spec.Damaged, "damaged", spec.Damaged, "share of damaged files, 0 to 1")
	flags.Float64Var(&spec.Twins, "twins", spec.Twins, "share of cards with the same bytes as another")
	flags.Float64Var(&spec.NearTwins, "near-twins", spec.NearTwins, "share of cards with another's picture, encoded anew")
	flags.Float64Var(&spec.Uncoded, "uncoded", spec.Uncoded, "share of cards without a readable collector code")
	flags.IntVar(&spec.Width, "width", 0, "pixels (default 300)")
	flags.IntVar(&spec.Height, "height", 0, "pixels (default 420)")
	flags.BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	_ = cmd.MarkFlagRequired("out") // the flag was defined above
	return cmd
}

// seedOf takes a number as it is and hashes any other word.
func seedOf(word string) uint64 {
	number, err := strconv.ParseUint(word, 10, 64)
	if err == nil {
		return number
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(word)) // documented never to fail
	return hash.Sum64()
}

func (a *app) imports() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import DIR|URL",
		Short: "Store a catalogue's printings and cards; again changes nothing",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			done, err := pipeline.Import(cmd.Context(), a.database, args[0])
			if err != nil {
				return fmt.Errorf("import catalogue: %w", err)
			}
			return printed(cmd, asJSON, done, fmt.Sprintf("%d cards (%d changed), %d printings (%d changed) from %s\n",
				done.Cards, done.CardsChanged, done.Printings, done.PrintingsChanged, done.Source))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	return cmd
}
