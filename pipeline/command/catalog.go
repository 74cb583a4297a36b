package command

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

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
	flags.Float64Var(&spec.DamagedListed, "damaged-listed", spec.DamagedListed, "share of files damaged after their hash was listed")
	flags.Float64Var(&spec.Misprints, "misprints", spec.Misprints, "share of cards that print a wrong set code, number or artist")
	flags.Float64Var(&spec.OldFrame, "old-frame", spec.OldFrame, "share of printings without a collector number")
	flags.Var(codings{&spec.Code}, "code", "print the block code `WHEN`: auto (text is too small to read), always, never")
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
	var opts pipeline.ImportOptions
	cmd := &cobra.Command{
		Use:   "import DIR|URL",
		Short: "Store a catalogue's printings and cards; again changes nothing",
		Long: "Store what the index of DIR or URL lists. Without an index.json every image below is a card (PNG, JPEG, GIF, WebP,\n" +
			"BMP, TIFF; over HTTP, of the server's directory listings), and every other file is counted by the reason why not.\n" +
			"An import that was ended goes on where it ended.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			done, err := pipeline.ImportWith(cmd.Context(), a.database, args[0], opts)
			if err != nil {
				return fmt.Errorf("import catalogue: %w", err)
			}
			if done.Files != nil {
				return printed(cmd, asJSON, done, filesText(done))
			}
			return printed(cmd, asJSON, done, fmt.Sprintf("%d cards (%d changed), %d printings (%d changed) from %s\n",
				done.Cards, done.CardsChanged, done.Printings, done.PrintingsChanged, done.Source))
		},
	}
	cmd.Flags().BoolVar(&opts.Enqueue, "enqueue", false, "ask the processes at work for a dispatch of each new or changed card")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	return cmd
}

// filesText is one line of totals and one for each reason.
func filesText(done pipeline.Imported) string {
	text := fmt.Sprintf("%d files in %s: %d cards measured (%d changed), %d unchanged\n",
		done.Files.Files, done.Source, done.Files.Cards, done.CardsChanged, done.Files.Unchanged)
	for _, reason := range slices.Sorted(maps.Keys(done.Files.Skipped)) {
		text += fmt.Sprintf("  %6d %s\n", done.Files.Skipped[reason], reason)
	}
	return text
}

// codings makes a flag of cardgen.Coding.
type codings struct{ to *cardgen.Coding }

// codingNames are in the order of the constants.
func codingNames() []string { return []string{"auto", "always", "never"} }

func (c codings) String() string {
	if c.to == nil {
		return ""
	}
	return codingNames()[*c.to]
}

func (c codings) Type() string { return "when" }

func (c codings) Set(word string) error {
	i := slices.Index(codingNames(), word)
	if i < 0 {
		return fmt.Errorf("want one of %s", strings.Join(codingNames(), ", "))
	}
	*c.to = cardgen.Coding(i)
	return nil
}
