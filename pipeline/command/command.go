// Package command owns conveyor's command line: its commands, flags, output and
// exit codes. It ends no process: errors carry the exit code, and the main that linked
// the commands ends with it. The specification's exit table is authoritative.
package command

import (
	"context"
	"io"
	"os"
	"time"

	// cobra: the command tree, and its hidden commands and flag errors, that both
	// mains share.
	"github.com/spf13/cobra"

	"deadwire/pipeline/session"
	"deadwire/pipeline/worker"
)

// Options says into which program the commands are linked.
type Options struct {
	// Name is the root command's; default "conveyor".
	Name string
	// WorkerArgs lead from the program to its worker mode; default ["worker"].
	WorkerArgs []string
	// Seam is empty in production.
	Seam worker.Seam
}

// app is what the commands share.
type app struct {
	options  Options
	url      string
	database session.Config
}

// New makes the root command. Run it with Execute or Main.
func New(options Options) *cobra.Command {
	if options.Name == "" {
		options.Name = "conveyor"
	}
	if options.WorkerArgs == nil {
		options.WorkerArgs = []string{"worker"}
	}
	a := &app{options: options}
	root := &cobra.Command{
		Use:           options.Name,
		Short:         "Identify the printings that scanned cards show",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRun: func(*cobra.Command, []string) {
			a.database.URL = databaseURL(a.url)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().StringVar(&a.url, "database-url", "", "PostgreSQL `URL`; else DATABASE_URL, else the PG* environment")
	root.PersistentFlags().DurationVar(&a.database.Timeout, "db-timeout", 5*time.Second, "bound of each connect and statement")
	root.AddCommand(a.migrate(), a.reference(), a.catalog(), a.cards(),
		a.run(), a.stream(), a.sweep(), a.shakedown(), a.work(), a.enqueue(), a.trip(), a.parked(),
		a.vote(), a.propagate(), a.probe(), a.status(), a.check(), a.worker())
	return root
}

// databaseURL applies the precedence; empty leaves it to pgx and the PG* environment.
func databaseURL(flag string) string {
	if flag != "" {
		return flag
	}
	return os.Getenv("DATABASE_URL")
}

// Main executes the command and returns the exit code; an error becomes one line
// on stderr.
func Main(ctx context.Context, root *cobra.Command, stderr io.Writer) int {
	err := mended(root.Name(), root.ExecuteContext(ctx))
	Report(stderr, root.Name(), err)
	return ExitCode(err)
}
