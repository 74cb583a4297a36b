package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"deadwire/faults/process"
	"deadwire/harness/verdict"
	"deadwire/harness/witness"
)

// need is how much depends on a probe.
type need int

const (
	nothing     need = iota // comfort
	everything              // without it nothing runs
	onePostgres             // one of its kind is enough
)

// probe is one thing that a machine has or lacks.
type probe struct {
	name  string
	need  need
	check func(context.Context) (found string, err error)
}

func doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Say what works on this machine, one line each, with the mend", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			missing, postgres := false, false
			for _, p := range slices.Concat(postgresProbes(), probes()) {
				found, err := p.check(cmd.Context())
				if err != nil {
					missing = missing || p.need == everything
					fmt.Fprintf(table, "no\t%s\t%s\n", p.name, strings.ReplaceAll(err.Error(), "\n", "; "))
					continue
				}
				postgres = postgres || p.need == onePostgres
				fmt.Fprintf(table, "ok\t%s\t%s\n", p.name, found)
			}
			if err := table.Flush(); err != nil {
				return err
			}
			if missing || !postgres {
				return &exitError{code: verdict.ExitEnvironment}
			}
			return nil
		},
	}
}

func probes() []probe {
	return []probe{
		{"loopback port", everything, func(ctx context.Context) (string, error) {
			var config net.ListenConfig
			l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
			if err != nil {
				return "", err
			}
			return "free ports can be had", l.Close()
		}},
		{"exact witness", nothing, func(context.Context) (string, error) {
			return "system calls are observed: the sender of Terminate is named exactly", witness.Available()
		}},
		{"subject's memory", nothing, func(context.Context) (string, error) {
			return "what a process sends can be read in it", witness.ReadsMemory()
		}},
		{"holders witness", nothing, func(context.Context) (string, error) {
			if _, err := os.Stat("/proc/self/fd"); err != nil {
				return "", errors.New("no /proc: who holds a socket cannot be told")
			}
			return "/proc tells who holds a socket", nil
		}},
		{"memory ceiling", nothing, func(context.Context) (string, error) { return process.CeilingMeans() }},
	}
}
