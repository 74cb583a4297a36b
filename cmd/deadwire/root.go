package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra" // commands, help and suggestions that users of Go tools know
	"github.com/spf13/pflag"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "deadwire",
		Short: "Find out who hung up on a PostgreSQL session, how, and why",
		Long: `deadwire runs a multi-process program against a real PostgreSQL, through a tap and a
real Toxiproxy, breaks things on purpose, and explains every session that ended.`,
		Example: `  deadwire run                           all built-in scenarios
  deadwire run inherited-terminate       one of them
  deadwire list                          what there is`,
		Version:                    fmt.Sprintf("%s (%s)", Version, revision()),
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		PersistentPreRunE:          func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd.Flags()) },
		Args:                       noCommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%w\nsee: %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(runCommand(), execCommand(), listCommand(), faultsCommand(), explainCommand(), schemaCommand(),
		doctorCommand(), proxyCommand(), soakCommand(), columnsHelp(), showCommand(), recheckCommand(), replayCommand(), conveyorHelp())
	return root
}

// noCommand refuses a word that is no command, and names the nearest ones.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf(" (did you mean %q?)", near[0])
	}
	return usageError("unknown command %q%s\nsee: %s --help", args[0], hint, cmd.CommandPath())
}

// conveyorHelp lists the pipeline's commands in the help; main runs them itself.
func conveyorHelp() *cobra.Command {
	return &cobra.Command{
		Use: conveyorName, Short: "The built-in pipeline's own commands", DisableFlagParsing: true,
		Run: func(*cobra.Command, []string) {},
	}
}

// fromEnvironment sets each flag that was not given from DEADWIRE_<NAME>, so
// that flags beat the environment and the environment beats defaults.
func fromEnvironment(flags *pflag.FlagSet) error {
	var problem error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || f.Name == "version" || problem != nil {
			return
		}
		name := "DEADWIRE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, set := os.LookupEnv(name)
		if !set {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			problem = usageError("environment %s=%q: %w", name, value, err)
		}
	})
	return problem
}

// revision returns the version control revision of the binary, when it has one.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "development"
}
