package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"deadwire/faults/catalog"
	"deadwire/harness/diagnose"
	"deadwire/harness/verdict"
	"deadwire/scenarios"
)

var errNothing = errors.New("nothing selected: no scenario matches (see: deadwire list)")

func listCommand() *cobra.Command {
	var cases bool
	cmd := &cobra.Command{
		Use: "list [NAME|GLOB|NAME/CASE|FILE.yaml ...]", Short: "List the built-in scenarios and their cases",
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := scenarios.Builtin()
			if err != nil {
				return err
			}
			chosen, err := choose(all, args)
			if err != nil {
				return err
			}
			if len(chosen) == 0 {
				return &exitError{code: verdict.ExitNothing, err: errNothing}
			}
			if cases {
				return listCases(cmd.OutOrStdout(), chosen)
			}
			return list(cmd.OutOrStdout(), chosen, len(args) > 0)
		},
	}
	cmd.Flags().BoolVar(&cases, "cases", false, "one NAME/CASE per line, for scripts")
	return cmd
}

func listCases(out io.Writer, chosen []job) error {
	for _, j := range chosen {
		if _, err := fmt.Fprintln(out, j.name()); err != nil {
			return err
		}
	}
	return nil
}

// list shows each scenario once, with the cases that were chosen; whole shows all
// of its story rather than the first sentence.
func list(out io.Writer, chosen []job, whole bool) error {
	for n := 0; n < len(chosen); {
		s := chosen[n].scenario
		var cases []string
		for ; n < len(chosen) && chosen[n].scenario.Name == s.Name; n++ {
			cases = append(cases, chosen[n].c.Name)
		}
		story := strings.TrimSpace(s.Story)
		if !whole {
			first, _, _ := strings.Cut(story, ". ")
			story = strings.TrimSuffix(first, ".") + "."
		}
		if _, err := fmt.Fprintf(out, "%s\n  %s\n  cases: %s\n", s.Name, story, strings.Join(cases, ", ")); err != nil {
			return err
		}
	}
	return nil
}

func explainCommand() *cobra.Command {
	return &cobra.Command{
		Use: "explain [RULE]", Short: "Explain a diagnosis: what it means, how it is told, what to change", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
				for _, r := range diagnose.Rules() {
					fmt.Fprintf(table, "%s\t%s\n", r.ID, r.Sentence)
				}
				return table.Flush()
			}
			return explain(cmd.OutOrStdout(), args[0])
		},
	}
}

func explain(out io.Writer, id string) error {
	rule, ok := diagnose.Lookup(id)
	if !ok {
		var known []string
		for _, r := range diagnose.Rules() {
			known = append(known, r.ID)
		}
		return usageError("unknown rule %q%s", id, catalog.Suggest(id, known))
	}
	family := ""
	if rule.Family != "" {
		family = " (family " + rule.Family + ")"
	}
	_, err := fmt.Fprintf(out, "%s%s\n\n  What happened  %s\n  How it is told %s\n  What to change %s\n", rule.ID, family, rule.Sentence, rule.Tells, rule.Mend)
	return err
}

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of scenario files", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			schema, err := scenarios.Schema()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), string(schema))
			return err
		},
	}
}
