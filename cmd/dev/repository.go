package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"deadwire/harness/pg/local"
	"deadwire/harness/pg/repository"
)

// repositoryVariable is where deadwire looks for the embedded provider's binaries.
const repositoryVariable = "DEADWIRE_POSTGRES_REPOSITORY"

func repositoryCommand() *cobra.Command {
	var folders []string
	cmd := &cobra.Command{
		Use:   "repository [--bin FOLDER]... -- CMD [ARG...]",
		Short: "Run a command with a repository of installed binaries for --postgres=embedded",
		Long: `Serve installed PostgreSQL binaries on loopback as the repository of the embedded provider, and run
a command with ` + repositoryVariable + ` set to it and with caches of its own, which are removed
afterwards: so that what it fetches is fetched there and now. For machines that cannot reach the real
repository.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withRepository(cmd.Context(), folders, func(ctx context.Context, env []string) error {
				return runBeside(ctx, cmd, args, env...)
			})
		},
	}
	cmd.Flags().StringArrayVar(&folders, "bin", nil, "`FOLDER` with a server's programs, one per major version (default: the installed ones)")
	return cmd
}

// withRepository calls do with the environment in which --postgres=embedded
// fetches from binaries in folders (none: the installed ones) into an empty cache.
func withRepository(ctx context.Context, folders []string, do func(ctx context.Context, env []string) error) (err error) {
	if len(folders) == 0 {
		if folders, err = installed(ctx); err != nil {
			return err
		}
	}
	served, err := repository.New(ctx, folders...)
	if err != nil {
		return err
	}
	cache, err := os.MkdirTemp("", "deadwire-cache-")
	if err != nil {
		return fmt.Errorf("make cache folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	// Servers of another user than ours are run from it.
	if err := os.Chmod(cache, 0o755); err != nil {
		return fmt.Errorf("make cache folder: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serve binaries: %w", err)
	}
	server := &http.Server{Handler: served, ReadHeaderTimeout: startMax}
	go func() { _ = server.Serve(listener) }() // ends with Close below
	defer func() { err = errors.Join(err, server.Close()) }()
	return do(ctx, []string{repositoryVariable + "=http://" + listener.Addr().String(), "XDG_CACHE_HOME=" + cache})
}

// installed returns the folders of the distribution's servers, or of those on PATH.
func installed(ctx context.Context) ([]string, error) {
	folders, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(folders) > 0 {
		return folders, err
	}
	if err := local.New(local.Options{}).Available(ctx); err != nil {
		return nil, err
	}
	postgres, err := exec.LookPath("postgres")
	if err != nil {
		return nil, fmt.Errorf("find binaries to serve: %w: name their folder with --bin", err)
	}
	postgres, err = filepath.EvalSymlinks(postgres)
	return []string{filepath.Dir(postgres)}, err
}
