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
	"strconv"
)

// pgbenchRows compares the ways to a server: latency of one client, throughput
// of eight.
func pgbenchRows() []Row {
	direct := func(_ context.Context, s *server) (string, error) { return s.Address().HostPort(), nil }
	paths := []struct {
		name             string
		open             func(*Bench, context.Context, *server) (string, error)
		latency, through string
	}{
		{"direct", func(_ *Bench, ctx context.Context, s *server) (string, error) { return direct(ctx, s) }, "", ""},
		{"haproxy", (*Bench).haproxyPath, "", ""},
		{"toxiproxy", (*Bench).toxiproxyPath, "", ""},
		{"watch", (*Bench).watchPath, "added <= 1.25 haproxy's, <= 0.6 toxiproxy's", ">= haproxy"},
		{"through", (*Bench).throughPath, "", ">= 0.7 toxiproxy"},
	}
	var list []Row
	for _, p := range paths {
		list = append(list, pgbenchRow("pgbench-c1/"+p.name, "ms", p.latency, 1, p.open))
	}
	for _, p := range paths {
		list = append(list, pgbenchRow("pgbench-c8/"+p.name, "tps", p.through, 8, p.open))
	}
	return list
}

func pgbenchRow(name, unit, limit string, clients int, open func(*Bench, context.Context, *server) (string, error)) Row {
	return Row{Name: name, Unit: unit, Limit: limit, Prepare: func(ctx context.Context, b *Bench) (Measure, error) {
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
			seconds := strconv.Itoa(max(1, int(b.RoundTime.Seconds())))
			err := s.pgbench(ctx, addr, &out, "-n", "-S", "-M", "prepared",
				"-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(clients, 2)), "-T", seconds)
			if err != nil {
				return 0, err
			}
			return parse(out.String(), unit)
		}, nil
	}}
}

// pgbench runs pgbench against addr; its report goes to out.
func (s *server) pgbench(ctx context.Context, addr string, out io.Writer, args ...string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("run pgbench: %w", err)
	}
	address := s.Address()
	program, err := beside(s, "pgbench")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, append(args, "-h", host, "-p", port, "-U", address.User, address.Database)...)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+string(address.Password), "PGSSLMODE=disable", "PGGSSENCMODE=disable")
	var complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run pgbench: %w: %s", err, bytes.TrimSpace(complaint.Bytes()))
	}
	return nil
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
