package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"deadwire/harness"
	"deadwire/harness/diagnose"
)

func proxyCommand() *cobra.Command {
	var f common
	var watch bool
	cmd := &cobra.Command{
		Use: "proxy", Short: "The taps and Toxiproxy alone, until interrupted", Args: cobra.NoArgs,
		Long: `Start PostgreSQL (or take --postgres URL), put taps and Toxiproxy before it, print the
address to connect to and that of Toxiproxy's HTTP interface, and explain every session at the end.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.proxy(cmd.Context(), cmd.OutOrStdout(), watch) },
	}
	f.register(cmd.Flags())
	cmd.Flags().BoolVar(&watch, "watch", false, "leave out Toxiproxy: one tap only")
	return cmd
}

func (f *common) proxy(ctx context.Context, out io.Writer, watch bool) (err error) {
	s, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	db, err := s.rig.NewDatabase(ctx, harness.DatabaseConfig{Key: "empty", Build: func(context.Context, string) error { return nil }})
	if err != nil {
		return environment(err)
	}
	dir, err := s.dir.Case("proxy", "session")
	if err != nil {
		return err
	}
	lane, err := s.rig.NewLane(ctx, harness.LaneConfig{Name: "proxy", Database: db, Dir: dir, Watch: watch})
	if err != nil {
		return environment(err)
	}
	defer func() { err = errors.Join(err, lane.Close(ctx)) }()
	fmt.Fprintf(out, "connect to  %s\ntoxiproxy   http://%s   link proxy\nfolder      %s\ninterrupt to end and to see how each session ended\n", lane.URL(), s.rig.ProxyAPI(), dir)
	<-ctx.Done()
	for _, e := range diagnose.Explain(lane.Journal.Events()).Endings {
		fmt.Fprintf(out, "session %d %s: %s: %s\n", e.Session, e.Role, e.Rule, e.Message)
	}
	return nil
}
