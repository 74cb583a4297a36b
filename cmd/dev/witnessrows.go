package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"deadwire/harness/event"
	"deadwire/harness/subject"
	"deadwire/harness/witness"
)

// witnessLoad is the traffic of the witness's rows.
var witnessLoad = []string{"-S", "-M", "prepared", "-c", "4", "-j", "2"}

// witnessRows compare a program with the same one under the exact witness. No tap is
// between, which would hide the difference behind its own cost.
func witnessRows() []Row {
	return []Row{
		witnessRow(Row{Name: "witness-c4/direct"}, false),
		witnessRow(Row{Name: "witness-c4/exact", Limit: ">= 0.98"}, true),
	}
}

func witnessRow(row Row, exact bool) Row {
	row.Unit = "tps"
	row.Prepare = func(ctx context.Context, b *Bench) (Measure, error) {
		s, err := b.sharedServer(ctx)
		if err != nil {
			return nil, err
		}
		if err := witness.Available(); err != nil {
			return nil, err
		}
		return func(ctx context.Context) (float64, error) {
			report, err := s.pgbenchSubject(ctx, b, exact)
			if err != nil {
				return 0, err
			}
			return parse(report, row.Unit)
		}, nil
	}
	return row
}

// pgbenchSubject runs pgbench as exec runs a program, and returns its report.
func (s *server) pgbenchSubject(ctx context.Context, b *Bench, exact bool) (report string, err error) {
	cmd, err := s.pgbenchCommand(ctx, s.Address().HostPort(), b.timed(witnessLoad))
	if err != nil {
		return "", err
	}
	journal := event.NewJournal(nil, 0)
	w := witness.New(witness.Options{Recorder: journal, Disabled: !exact, Blind: !exact})
	defer func() { err = joinStop(err, w.Close(context.WithoutCancel(ctx))) }()
	var out bytes.Buffer
	command := subject.Command{Path: cmd.Path, Args: cmd.Args[1:], Env: cmd.Env, Stdout: &out}
	run, err := subject.Start(ctx, command, subject.Options{Recorder: journal, Witness: w, Owner: b.lease})
	if err != nil {
		return "", fmt.Errorf("run pgbench: %w", err)
	}
	defer func() { err = joinStop(err, run.Close(context.WithoutCancel(ctx))) }()
	if exact && run.Certainty() != witness.Exact {
		return "", errors.New("run pgbench: the exact witness fell back to another")
	}
	exit, err := run.Wait(ctx)
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("run %s: %s: %v", filepath.Base(cmd.Path), exit, run.Tail())
	}
	return out.String(), err
}
