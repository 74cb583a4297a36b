package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
)

// opener starts a way to the server and returns its address.
type opener func(*Bench, context.Context, *server) (string, error)

func directPath(_ *Bench, _ context.Context, s *server) (string, error) {
	return s.Address().HostPort(), nil
}

// load is a way to use pgbench, measured on every way to a server.
type load struct {
	group, unit    string
	args           []string // pgbench's own, beside where and how long
	added          bool     // the ways are compared by what they add to the direct one
	watch, through string   // limits, in words
}

// pgbenchRows compares the ways to a server: latency of one client, throughput of
// more, and what an open and close of a connection costs.
func pgbenchRows() []Row {
	return slices.Concat(
		load{group: "pgbench-c1", unit: "ms", args: []string{"-S", "-M", "prepared", "-c", "1"}, added: true, watch: "<= 1.25 (and <= 0.6 of toxiproxy's)"}.rows(),
		load{group: "pgbench-c8", unit: "tps", args: []string{"-S", "-M", "prepared", "-c", "8", "-j", "2"}, watch: ">= 1", through: ">= 0.7"}.rows(),
		load{group: "pgbench-c64", unit: "tps", args: []string{"-S", "-M", "prepared", "-c", "64", "-j", "2"}}.rows(),
		load{group: "connect", unit: "tps", args: []string{"-S", "-C", "-c", "4", "-j", "2"}}.rows(),
	)
}

func (l load) rows() []Row {
	return []Row{
		l.row("direct", directPath, Row{}),
		l.row("haproxy", (*Bench).haproxyPath, Row{}),
		l.row("toxiproxy", (*Bench).toxiproxyPath, Row{}),
		l.row("watch", (*Bench).watchPath, Row{Against: l.group + "/haproxy", Added: l.added, Limit: l.watch}),
		l.row("through", (*Bench).throughPath, Row{Against: l.group + "/toxiproxy", Added: l.added, Limit: l.through}),
	}
}

// row completes a row: its group's load on one way to the server.
func (l load) row(way string, open opener, row Row) Row {
	row.Name, row.Unit = l.group+"/"+way, l.unit
	row.Prepare = func(ctx context.Context, b *Bench) (Measure, error) {
		s, err := b.sharedServer(ctx)
		if err != nil {
			return nil, err
		}
		addr, err := open(b, ctx, s)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (float64, error) {
			var out bytes.Buffer
			if err := s.pgbench(ctx, addr, &out, b.timed(l.args)...); err != nil {
				return 0, err
			}
			return parse(out.String(), row.Unit)
		}, nil
	}
	return row
}

// timed completes pgbench's arguments for one round.
func (b *Bench) timed(args []string) []string {
	return slices.Concat(args, []string{"-n", "-T", strconv.Itoa(max(1, int(b.RoundTime.Seconds())))})
}

// pgbench runs pgbench against addr; its report goes to out.
func (s *server) pgbench(ctx context.Context, addr string, out io.Writer, args ...string) error {
	cmd, err := s.pgbenchCommand(ctx, addr, args)
	if err != nil {
		return err
	}
	var complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run pgbench: %w: %s", err, bytes.TrimSpace(complaint.Bytes()))
	}
	return nil
}

func (s *server) pgbenchCommand(ctx context.Context, addr string, args []string) (*exec.Cmd, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("run pgbench: %w", err)
	}
	address := s.Address()
	program, err := beside(s, "pgbench")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, slices.Concat(args, []string{"-h", host, "-p", port, "-U", address.User, address.Database})...)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+string(address.Password), "PGSSLMODE=disable", "PGGSSENCMODE=disable")
	return cmd, nil
}

var (
	latencyLine = regexp.MustCompile(`(?m)^latency average = ([0-9.]+) ms`)
	tpsLine     = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)
)

// parse reads a value from pgbench's report (PostgreSQL manual, "pgbench", Output).
func parse(report, unit string) (float64, error) {
	line := latencyLine
	if unit == "tps" {
		line = tpsLine
	}
	found := line.FindStringSubmatch(report)
	if found == nil {
		return 0, fmt.Errorf("read pgbench's report: no %s in it", unit)
	}
	return strconv.ParseFloat(found[1], 64)
}
