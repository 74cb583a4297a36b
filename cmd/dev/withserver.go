package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"deadwire/harness/pg"
	"deadwire/harness/pg/local"
)

// urlVariable holds the address of a server for the command that uses it.
const urlVariable = "DATABASE_URL"

func serverCommand() *cobra.Command {
	var bin string
	cmd := &cobra.Command{
		Use:   "server [--bin FOLDER] -- CMD [ARG...]",
		Short: "Run a command beside a PostgreSQL of its own, whose address is in " + urlVariable,
		Long: `Start a PostgreSQL, run a command with its address in ` + urlVariable + `, and stop it. For what takes a
server that somebody else has started, such as --postgres=URL.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withServer(cmd.Context(), bin, func(ctx context.Context, url string) error {
				return runBeside(ctx, cmd, args, urlVariable+"="+url)
			})
		},
	}
	cmd.Flags().StringVar(&bin, "bin", "", "`FOLDER` with the server's programs (default: the installed ones)")
	return cmd
}

// withServer calls do with the URL of a server that ends when it returns.
func withServer(ctx context.Context, bin string, do func(ctx context.Context, url string) error) (err error) {
	b := &Bench{}
	if err := b.begin(ctx); err != nil {
		return err
	}
	defer func() { err = joinStop(err, b.stop(ctx)) }()
	dir, err := b.tempDir("server")
	if err != nil {
		return err
	}
	started, err := local.New(local.Options{BinDir: bin}).Start(ctx, pg.Config{Dir: dir, Owner: b.lease})
	if err != nil {
		return err
	}
	b.onStop(started.Stop)
	return do(ctx, started.URL(started.Address().Database))
}

// runBeside runs a command with our streams and a changed environment. An
// interrupt is passed on, and its end waited for: it has children of its own.
func runBeside(ctx context.Context, cmd *cobra.Command, args []string, env ...string) error {
	tool := exec.CommandContext(ctx, args[0], args[1:]...)
	tool.Stdin, tool.Stdout, tool.Stderr = os.Stdin, cmd.OutOrStdout(), cmd.ErrOrStderr()
	tool.Env = append(os.Environ(), env...)
	tool.Cancel = func() error { return tool.Process.Signal(os.Interrupt) }
	err := tool.Run()
	if _, ran := errors.AsType[*exec.ExitError](err); err != nil && !ran {
		return fmt.Errorf("run %s: %w", args[0], err)
	}
	return err
}
