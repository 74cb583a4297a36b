package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"deadwire/harness/janitor"
	"deadwire/harness/pg"
	"deadwire/harness/pg/docker"
	"deadwire/harness/pg/source"
)

// startChildName is the hidden command of the processes that starts begins.
const startChildName = "start-child"

// startReport is what such a process tells once its server is ready, as one line
// of JSON.
type startReport struct {
	PID  int // the postmaster's; 0: not ours
	Port int
}

func startChildCommand() *cobra.Command {
	var spec, image, dir string
	cmd := &cobra.Command{
		Use: startChildName, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return startChild(cmd.Context(), spec, image, dir, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&spec, "postgres", "", "")
	cmd.Flags().StringVar(&image, "postgres-image", "", "")
	cmd.Flags().StringVar(&dir, "dir", "", "")
	return cmd
}

// startChild does what a run does with its server, from the sweep to the release.
// The folder is empty: its caller made it, as a user's is there before a run.
func startChild(ctx context.Context, spec, image, dir string, out io.Writer) (err error) {
	chosen, err := source.Provider(ctx, spec, source.Options{Image: image})
	if err != nil {
		return err
	}
	if _, err := janitor.Sweep(ctx, "", janitor.Remover{Kind: docker.Kind, Remove: docker.Remove}); err != nil {
		return err
	}
	lease, err := janitor.Acquire("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	if err := lease.OwnDir(dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := chosen.Start(ctx, pg.Config{Dir: dir, Owner: lease})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
	return useServer(ctx, server, out)
}

// useServer clones a database, as each case of a suite does, and tells of the server.
func useServer(ctx context.Context, server pg.Server, out io.Writer) (err error) {
	all := pg.NewDatabases(server)
	defer func() { err = errors.Join(err, all.Close(context.WithoutCancel(ctx))) }()
	template, err := all.Template(ctx, "starts", func(ctx context.Context, url string) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "create table t (id int primary key)")
		return errors.Join(err, conn.Close(ctx))
	})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(startReport{PID: server.PID(), Port: server.Address().Port}); err != nil {
		return err
	}
	db, err := all.Clone(ctx, template)
	if err != nil {
		return err
	}
	return db.Drop(ctx)
}
