// Command dev runs the developer's tasks: check, test, race, bench, trials, judge,
// starts, storm, planted, and helpers that bring PostgreSQL. It owns how they are started,
// in Go instead of a Makefile; what they judge belongs to the tools and packages
// themselves. .ci/run is authoritative for what must pass before a change is done.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	// Chosen because both mains use it, so that help and flags read alike.
	"github.com/spf13/cobra"

	"deadwire/harness/pg/embedded"
	"deadwire/harness/witness"
)

func main() {
	if code, launched := witness.Main(); launched {
		os.Exit(code)
	}
	if code, fetching := embedded.Main(); fetching {
		os.Exit(code)
	}
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "dev",
		Short:         "Developer tasks",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(checkCommand(), testCommand(), raceCommand(), benchCommand(), fetchCommand(), repositoryCommand(), serverCommand(), startsCommand(), startChildCommand(), stormCommand(), trialsCommand(),
		judgeCommand(), drillCommand(), scaleCommand(), growthCommand(), conveyorCommand(), plantedCommand())
	err := root.ExecuteContext(ctx)
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(1, failed.ExitCode()) // the tool has said what is wrong
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dev:", err)
		return 1
	}
	return 0
}
