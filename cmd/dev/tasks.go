package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
)

// the tools' versions, the same as in .ci/run (a test compares them)
const (
	gofumpt     = "mvdan.cc/gofumpt@v0.12.0"
	staticcheck = "honnef.co/go/tools/cmd/staticcheck@v0.8.2"
)

func checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [PACKAGE...]",
		Short: "Format, vet and check statically",
		RunE: func(cmd *cobra.Command, packages []string) error {
			packages = orAll(packages)
			return errors.Join(
				checkFormat(cmd.Context(), cmd.OutOrStdout()),
				goTool(cmd, append([]string{"vet"}, packages...)...),
				goTool(cmd, append([]string{"run", staticcheck}, packages...)...),
				goTool(cmd, "test", "./cmd"), // import rules and style
			)
		},
	}
}

func testCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "test [PACKAGE...]",
		Short: "Run the tests",
		RunE: func(cmd *cobra.Command, packages []string) error {
			return goTool(cmd, append([]string{"test"}, orAll(packages)...)...)
		},
	}
}

func raceCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "race [PACKAGE...]",
		Short: "Run the tests with the race detector, in random order",
		RunE: func(cmd *cobra.Command, packages []string) error {
			return goTool(cmd, append([]string{"test", "-race", "-shuffle=on"}, orAll(packages)...)...)
		},
	}
}

func orAll(packages []string) []string {
	if len(packages) == 0 {
		return []string{"./..."}
	}
	return packages
}

// checkFormat names the files that gofumpt would change.
func checkFormat(ctx context.Context, out io.Writer) error {
	cmd := exec.CommandContext(ctx, "go", "run", gofumpt, "-l", ".")
	cmd.Stderr = os.Stderr
	files, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run gofumpt: %w", err)
	}
	if len(files) == 0 {
		return nil
	}
	fmt.Fprint(out, string(files))
	return fmt.Errorf("%d files are not formatted; mend with: go run %s -w ./", strings.Count(string(files), "\n"), gofumpt)
}

func goTool(cmd *cobra.Command, args ...string) error {
	tool := exec.CommandContext(cmd.Context(), "go", args...)
	tool.Stdout, tool.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	return tool.Run()
}
