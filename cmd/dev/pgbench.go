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

// opener starts a way to the server and returns its address.
type opener func(*Bench, context.Context, *server) (string, error)

func directPath(_ *Bench, _ context.Context, s *server) (string, error) {
	return s.Address().HostPort(), nil
}

// pgbenchRows compares the ways to a server: latency of one client, throughput
// of eight.
func pgbenchRows() []Row {
	return []Row{
		pgbenchRow(Row{Name: "pgbench-c1/direct", Unit: "ms"}, 1, directPath),
		pgbenchRow(Row{Name: "pgbench-c1/haproxy", Unit: "ms"}, 1, (*Bench).haproxyPath),
		pgbenchRow(Row{Name: "pgbench-c1/toxiproxy", Unit: "ms"}, 1, (*Bench).toxiproxyPath),
		pgbenchRow(Row{Name: "pgbench-c1/watch", Unit: "ms", Against: "pgbench-c1/haproxy", Added: true, Limit: "<= 1.25 (and <= 0.6 of toxiproxy's)"}, 1, (*Bench).watchPath),
		pgbenchRow(Row{Name: "pgbench-c1/through", Unit: "ms", Against: "pgbench-c1/toxiproxy", Added: true}, 1, (*Bench).throughPath),
		pgbenchRow(Row{Name: "pgbench-c8/direct", Unit: "tps"}, 8, directPath),
		pgbenchRow(Row{Name: "pgbench-c8/haproxy", Unit: "tps"}, 8, (*Bench).haproxyPath),
		pgbenchRow(Row{Name: "pgbench-c8/toxiproxy", Unit: "tps"}, 8, (*Bench).toxiproxyPath),
		pgbenchRow(Row{Name: "pgbench-c8/watch", Unit: "tps", Against: "pgbench-c8/haproxy", Limit: ">= 1"}, 8, (*Bench).watchPath),
		pgbenchRow(Row{Name: "pgbench-c8/through", Unit: "tps", Against: "pgbench-c8/toxiproxy", Limit: ">= 0.7"}, 8, (*Bench).throughPath),
	}
}

func pgbenchRow(row Row, clients int, open opener) Row {
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
			seconds := strconv.Itoa(max(1, int(b.RoundTime.Seconds())))
			err := s.pgbench(ctx, addr, &out, "-n", "-S", "-M", "prepared",
				"-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(clients, 2)), "-T", seconds)
			if err != nil {
				return 0, err
			}
			return parse(out.String(), row.Unit)
		}, nil
	}
	return row
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
