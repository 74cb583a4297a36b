package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"deadwire/faults"
	"deadwire/faults/catalog"
	"deadwire/faults/process"
	"deadwire/harness"
	"deadwire/harness/janitor"
	"deadwire/harness/subject"
)

func faultsCommand() *cobra.Command {
	f := common{format: "quiet"}
	cmd := &cobra.Command{
		Use: "faults", Short: "List the faults with their parameters, and which can act here", Args: cobra.NoArgs,
		Long: "List the faults with their parameters, the endings that they cause, and which can act here.\n" +
			"For that a server is started as a scenario would start it, and stopped again.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.listFaults(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&f.postgres, "postgres", "auto", "where PostgreSQL comes from, as for run")
	cmd.Flags().BoolVar(&f.allowRemote, "allow-remote", false, "allow a URL that is not on this machine")
	return cmd
}

func (f *common) listFaults(ctx context.Context, out io.Writer) (err error) {
	available, done := f.availability(ctx)
	defer func() { err = errors.Join(err, done()) }()
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "FAULT\tPARAMETERS\tENDS SESSIONS BY\tHERE")
	for _, fault := range catalog.All() {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", fault.Name(), strings.Join(catalog.Parameters(fault), " "), expectsOf(fault), available(fault))
	}
	return table.Flush()
}

// availability returns what says in words whether a fault can act here, in a
// scenario of conveyor's with a server of its own, and what takes the probe down.
func (f *common) availability(ctx context.Context) (say func(faults.Fault) string, done func() error) {
	done = func() error { return nil }
	lease, err := janitor.Acquire("")
	if err != nil {
		return notKnown(err), done
	}
	rig, target, err := f.probe(ctx, lease)
	done = func() error {
		if rig == nil {
			return lease.Release()
		}
		return errors.Join(rig.Close(ctx), lease.Release())
	}
	if err != nil {
		return notKnown(err), done
	}
	return func(fault faults.Fault) string { return here(fault, target) }, done
}

func notKnown(err error) func(faults.Fault) string {
	reason, _, _ := strings.Cut(err.Error(), "\n")
	return func(faults.Fault) string { return "not known: " + reason }
}

// probe builds what a case has, as far as no subject is needed for it.
func (f *common) probe(ctx context.Context, lease *janitor.Lease) (*harness.Rig, faults.Target, error) {
	provider, err := f.provider(ctx)
	if err != nil {
		return nil, faults.Target{}, err
	}
	rig, err := harness.New(ctx, harness.Config{Provider: provider, Owner: lease})
	if err != nil {
		return nil, faults.Target{}, err
	}
	lane, err := rig.NewLane(ctx, harness.LaneConfig{Name: "probe", Database: rig.BorrowDatabase(rig.Server().Address().Database)})
	if err != nil {
		return rig, faults.Target{}, err
	}
	return rig, faults.Target{
		Server: rig.Server(), Front: lane.Front, Back: lane.Back, Link: lane.Link, Journal: lane.Journal, Seam: &faults.Seam{},
		Admin: lane.Database.Admin, Database: lane.Database.Name(), ServerIsOurs: rig.Server().PID() != 0,
		Subject: func() *subject.Instance { return nil },
	}, lane.Close(ctx)
}

// here says whether a fault can act on a case. A subject and its image source
// are there as soon as one runs.
func here(fault faults.Fault, target faults.Target) string {
	err := fault.Available(target)
	switch {
	case err != nil && !errors.Is(err, faults.ErrNeedsSubject) && !errors.Is(err, faults.ErrNeedsSource):
		return "no: " + err.Error()
	case fault.Name() == process.Memory{}.Name():
		how, err := process.CeilingMeans()
		if err != nil {
			how = err.Error()
		}
		return "yes, " + how
	default:
		return "yes"
	}
}

func expectsOf(f faults.Fault) string {
	e, ok := f.(faults.Expecter)
	if !ok {
		return "none"
	}
	var rules []string
	for _, x := range e.Expects() {
		rules = append(rules, x.Rule)
	}
	if len(rules) == 0 {
		return "depends on its parameters"
	}
	return strings.Join(rules, ", ")
}
