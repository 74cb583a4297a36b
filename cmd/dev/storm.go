package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"deadwire/harness/event"
	"deadwire/harness/pg"
	"deadwire/harness/pg/local"
	"deadwire/harness/tap"
)

const (
	inFlightMax = 2000             // connects that have not returned
	sources     = 200              // loopback addresses that clients come from, since ports last a minute each
	calmMax     = 5 * time.Minute  // until an ordinary session works and all others have ended
	connectMax  = 30 * time.Second // of one connect
)

func stormCommand() *cobra.Command {
	var rate, sessions int
	var duration time.Duration
	cmd := &cobra.Command{
		Use:   "storm",
		Short: "Throw connections at a tap, then many sessions at once, then a row of a gigabyte",
		Long: `Three abuses of a tap before a real server, on loopback only: connections that hang up at once, at a
rate; sessions that are all open at the same time; and a row of almost a gigabyte. Afterwards an ordinary
session must work, each session that was opened must have ended, and memory must be what it was.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			s, err := newStorm(cmd.Context(), sessions)
			if err != nil {
				return err
			}
			defer func() { err = joinStop(err, s.stop(cmd.Context())) }()
			out := cmd.OutOrStdout()
			return errors.Join(s.connects(cmd.Context(), out, rate, duration), s.crowd(cmd.Context(), out, sessions), s.bigRow(cmd.Context(), out))
		},
	}
	cmd.Flags().IntVar(&rate, "rate", 10_000, "connections per second")
	cmd.Flags().DurationVar(&duration, "for", 10*time.Second, "how long")
	cmd.Flags().IntVar(&sessions, "sessions", 2000, "sessions at once")
	return cmd
}

// storm is a server and the tap before it.
type storm struct {
	Bench
	server pg.Server
	tap    *tap.Tap
	tally  *opensAndEnds
}

// opensAndEnds counts what a tap records, and keeps nothing.
type opensAndEnds struct {
	event.Recorder
	opened, ended atomic.Int64
}

// Record implements event.Recorder.
func (t *opensAndEnds) Record(e event.Event) {
	switch e.Kind {
	case event.SessionOpened:
		t.opened.Add(1)
	case event.SessionEnded:
		t.ended.Add(1)
	}
}

func newStorm(ctx context.Context, sessions int) (s *storm, err error) {
	s = &storm{tally: &opensAndEnds{Recorder: event.NewJournal(nil, 1)}}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = joinStop(err, s.stop(ctx))
		}
	}()
	dir, err := s.tempDir("storm")
	if err != nil {
		return nil, err
	}
	cfg := pg.Config{Dir: dir, Owner: s.lease, Settings: map[string]string{"max_connections": strconv.Itoa(sessions + 20)}}
	if s.server, err = local.New(local.Options{}).Start(ctx, cfg); err != nil {
		return nil, err
	}
	s.onStop(s.server.Stop)
	s.tap, err = tap.Start(ctx, tap.Config{Place: event.Front, Upstream: s.server.Address().HostPort(), Recorder: s.tally})
	if err != nil {
		return nil, err
	}
	s.onStop(s.tap.Close)
	return s, nil
}

// connects opens and closes connections at a rate, as far as the machine gives it.
func (s *storm) connects(ctx context.Context, out io.Writer, rate int, duration time.Duration) error {
	before := heap()
	var made, failed atomic.Int64
	var group errgroup.Group
	group.SetLimit(inFlightMax)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	began, due := time.Now(), 0
	for time.Since(began) < duration && ctx.Err() == nil {
		<-tick.C
		for ; due < int(time.Since(began).Seconds()*float64(rate)); due++ {
			from := net.IPv4(127, 0, 1, byte(1+due%sources))
			if !group.TryGo(func() error { s.connectOnce(ctx, from, &made, &failed); return nil }) {
				break // as many as the limit are under way: the rate falls behind
			}
		}
	}
	_ = group.Wait() // they report by counting
	took := time.Since(began)
	if err := s.calm(ctx); err != nil {
		return fmt.Errorf("after %d connects: %w", made.Load(), err)
	}
	fmt.Fprintf(out, "connects: %d in %v (%.0f/s, asked for %d/s), %d failed; calm %v later; heap %d MB before, %d MB after\n",
		made.Load(), took.Round(time.Millisecond), float64(made.Load())/took.Seconds(), rate, failed.Load(),
		(time.Since(began) - took).Round(time.Millisecond), before, heap())
	return nil
}

func (s *storm) connectOnce(ctx context.Context, from net.IP, made, failed *atomic.Int64) {
	d := net.Dialer{Timeout: connectMax, LocalAddr: &net.TCPAddr{IP: from}}
	conn, err := d.DialContext(ctx, "tcp", s.tap.Addr().String())
	if err != nil {
		failed.Add(1)
		return
	}
	made.Add(1)
	_ = conn.Close() // that is the abuse
}

// calm waits until an ordinary session works and all others have ended.
func (s *storm) calm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, calmMax)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url())
	if err != nil {
		return fmt.Errorf("an ordinary session: %w", err)
	}
	if err := errors.Join(conn.Ping(ctx), conn.Close(ctx)); err != nil {
		return fmt.Errorf("an ordinary session: %w", err)
	}
	for _, session := range s.tap.Sessions() {
		select {
		case <-session.Done():
		case <-ctx.Done():
			return fmt.Errorf("session %s does not end, and %d of %d have", session.ID(), s.tally.ended.Load(), s.tally.opened.Load())
		}
	}
	if opened, ended := s.tally.opened.Load(), s.tally.ended.Load(); opened != ended {
		return fmt.Errorf("%d sessions were opened, %d ended", opened, ended)
	}
	return nil
}

// url is the server's, by the tap.
func (s *storm) url() string {
	a := s.server.Address()
	a.Host, a.Port = "127.0.0.1", int(s.tap.Addr().Port())
	return a.URL(a.Database)
}

// crowd holds many sessions open at once, and uses each of them.
func (s *storm) crowd(ctx context.Context, out io.Writer, sessions int) error {
	ctx, cancel := context.WithTimeout(ctx, calmMax)
	defer cancel()
	before, began := heap(), time.Now()
	conns := make([]*pgx.Conn, sessions)
	if err := s.each(conns, func(i int) (err error) { conns[i], err = pgx.Connect(ctx, s.url()); return err }); err != nil {
		return err
	}
	open, held := time.Since(began), heap()
	use := func(i int) error {
		var back int
		if err := conns[i].QueryRow(ctx, "select $1::int", i).Scan(&back); err != nil || back != i {
			return fmt.Errorf("session %d got %d: %w", i, back, err)
		}
		return nil
	}
	live := len(s.tap.Sessions())
	err := errors.Join(s.each(conns, use), s.each(conns, func(i int) error { return conns[i].Close(ctx) }))
	if err := errors.Join(err, s.calm(ctx)); err != nil {
		return fmt.Errorf("%d sessions: %w", sessions, err)
	}
	fmt.Fprintf(out, "sessions: %d at once, opened in %v; heap %d MB before, %d MB with all of them (both ends), %d MB after\n", live, open.Round(time.Millisecond), before, held, heap())
	return nil
}

func (s *storm) each(conns []*pgx.Conn, do func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(50)
	for i := range conns {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}

// bigRow has a row of almost a gigabyte, the most that PostgreSQL can make, go by.
func (s *storm) bigRow(ctx context.Context, out io.Writer) error {
	before, began := heap(), time.Now()
	psql, err := exec.LookPath("psql")
	if err != nil {
		return fmt.Errorf("fetch a long row: %w", err)
	}
	// In a process of its own, since clients keep the row in memory.
	cmd := exec.CommandContext(ctx, psql, s.url(), "-XAtqc", "copy (select repeat('x', 1000000000)) to stdout")
	var count counter
	cmd.Stdout, cmd.Stderr = &count, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("fetch a long row: %w", err)
	}
	if count != 1_000_000_001 { // and a line's end
		return fmt.Errorf("fetch a long row: %d bytes came", count)
	}
	var most runtime.MemStats
	runtime.ReadMemStats(&most)
	fmt.Fprintf(out, "row: 1 GB in %v; heap %d MB before, %d MB taken from the system in all\n", time.Since(began).Round(time.Millisecond), before, most.HeapSys>>20)
	return s.calm(ctx)
}

type counter int64

// Write implements io.Writer.
func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// heap returns the live heap in MB.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc >> 20
}
