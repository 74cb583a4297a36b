package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"deadwire/harness/pg"
	"deadwire/pipeline"
	"deadwire/pipeline/cardgen"
	"deadwire/pipeline/session"
)

const (
	drillCards   = 24
	drillResumes = 6
	drillRunMax  = 2 * time.Minute
	drillBase    = "drill"
)

// drilled is what a drill ends and after which step of a batch: before Stage C, in
// it, before the partition, before the votes, after the last write.
var (
	drilled = []string{"coordinator", "worker", "session"}
	steps   = []string{"ledger", "c", "partition", "d", "done"}
)

// drill kills parts of a stream and holds what the resumed stream leaves against a
// run without faults.
type drill struct {
	server pg.Server
	dir    string
	want   string
}

func drillCommand() *cobra.Command {
	var seeds int
	var first uint64
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Kill coordinator, worker or session at each step of a batch, resume, compare with a run without faults",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return drills(cmd.Context(), cmd.OutOrStdout(), first, seeds)
		},
	}
	cmd.Flags().IntVar(&seeds, "seeds", 6, "seeds; each is one kill of every victim at every step")
	cmd.Flags().Uint64Var(&first, "first", 1, "the first seed")
	return cmd
}

func drills(ctx context.Context, out io.Writer, first uint64, seeds int) (err error) {
	b := &Bench{Progress: io.Discard}
	if err := b.begin(ctx); err != nil {
		return err
	}
	defer func() { err = joinStop(err, b.stop(ctx)) }()
	var d drill
	if err := d.prepare(ctx, b); err != nil {
		return err
	}
	bitten, total := 0, 0
	for seed := first; seed < first+uint64(seeds); seed++ {
		for _, victim := range drilled {
			for _, step := range steps {
				bit, err := d.one(ctx, seed, victim, step)
				if err != nil {
					return fmt.Errorf("seed %d, %s at %s: %w", seed, victim, step, err)
				}
				total++
				if bit {
					bitten++
				}
			}
		}
		fmt.Fprintf(out, "seed %d: %d drills so far, %d of them ended the stream, all converged\n", seed, total, bitten)
	}
	if bitten < total/3 {
		return fmt.Errorf("only %d of %d kills ended a stream: the drill has no power", bitten, total)
	}
	return nil
}

// prepare makes a database to clone, and what a run without faults makes of it.
func (d *drill) prepare(ctx context.Context, b *Bench) error {
	server, dir, err := b.postgres(ctx)
	if err != nil {
		return err
	}
	d.server, d.dir = server, filepath.Join(dir, "catalogue")
	if _, err := cardgen.Write(ctx, d.dir, cardgen.Default(drillCards, 1)); err != nil {
		return err
	}
	if err := d.sql(ctx, "postgres", "create database "+drillBase); err != nil {
		return err
	}
	base := session.Config{URL: server.URL(drillBase), Timeout: time.Minute}
	if _, _, err := pipeline.Migrate(ctx, base); err != nil {
		return err
	}
	if _, err := pipeline.Import(ctx, base, d.dir); err != nil {
		return err
	}
	if err := d.clone(ctx, "healthy"); err != nil {
		return err
	}
	if _, err := d.stream(ctx, "healthy", nil); err != nil {
		return err
	}
	d.want, err = d.facts(ctx, "healthy")
	return err
}

// one kills once, resumes until the work is done, and compares.
func (d *drill) one(ctx context.Context, seed uint64, victim, step string) (bit bool, err error) {
	name := fmt.Sprintf("d%d_%s_%s", seed, victim, step)
	if err := d.clone(ctx, name); err != nil {
		return false, err
	}
	random := rand.New(rand.NewPCG(seed, uint64(len(victim)*10+len(step))))
	k := &killing{drill: d, database: name, victim: victim, step: step, batch: 1 + random.IntN(4), pick: random.IntN(2)}
	killed, err := d.stream(ctx, name, k)
	if err != nil && ctx.Err() != nil {
		return false, err
	}
	for try := 0; err != nil || killed; try++ {
		if try == drillResumes {
			return true, fmt.Errorf("not done after %d resumes: %w", try, err)
		}
		killed, err = d.stream(ctx, name, nil)
		bit = true
	}
	got, err := d.facts(ctx, name)
	if err != nil {
		return bit, err
	}
	if got != d.want {
		return bit, fmt.Errorf("the resumed run differs from the one without faults:\n%s\nwant:\n%s", got, d.want)
	}
	return bit, errors.Join(d.checked(ctx, name), d.sql(ctx, "postgres", "drop database "+name+" with (force)"))
}

func (d *drill) clone(ctx context.Context, name string) error {
	return d.sql(ctx, "postgres", "create database "+name+" template "+drillBase)
}

func (d *drill) sql(ctx context.Context, database, statement string, args ...any) error {
	conn, err := pgx.Connect(ctx, d.server.URL(database))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement, args...)
	return errors.Join(err, conn.Close(ctx))
}

// factsSQL is what every run over the same cards must leave: evidence, votes, statuses,
// and one COMPLETED end of the work, but no ids, times and runs.
const factsSQL = `select string_agg(line, e'\n' order by line) from (
  select format('evidence %s %s %s %s %s', c.identifier, e.content_hash, e.extractor_versions, e.collector_set_code, e.collector_number) as line
  from image_evidence e join card c on c.id = e.card_id
  union all
  select format('vote %s %s %s', c.identifier, v.anonymous_id, coalesce(p.identifier::text, 'no match'))
  from card_printing_tag v join card c on c.id = v.card_id left join printing p on p.id = v.printing_id
  union all select format('status %s %s', identifier, printing_tag_status) from card
  union all select format('running %s', run_id) from pilot_run_ledger where status = 'running') facts`

func (d *drill) facts(ctx context.Context, database string) (facts string, err error) {
	conn, err := pgx.Connect(ctx, d.server.URL(database))
	if err != nil {
		return "", err
	}
	err = conn.QueryRow(ctx, factsSQL).Scan(&facts)
	return facts, errors.Join(err, conn.Close(ctx))
}

func (d *drill) checked(ctx context.Context, database string) error {
	findings, err := pipeline.Check(ctx, session.Config{URL: d.server.URL(database), Timeout: time.Minute}, false)
	for _, f := range findings {
		if !f.OK {
			err = errors.Join(err, fmt.Errorf("%s: %s: %v", f.Invariant, f.Promise, f.Breaches))
		}
	}
	return err
}

// killing ends one part of a running stream when its log says that it came so far.
type killing struct {
	*drill
	database, victim, step string
	batch, pick            int
	workers                []int
	backend                int
	process                *os.Process
	done                   bool
}

// logLine is what a drill reads of conveyor's log.
type logLine struct {
	Msg, Stage string
	Batch      int
	PID        int
	BackendPID int `json:"backend_pid"`
}

// see looks at one line, and acts once.
func (k *killing) see(ctx context.Context, line logLine) error {
	switch line.Msg {
	case "coordinator session ready":
		k.backend = line.BackendPID
	case "worker ready":
		k.workers = append(k.workers, line.PID)
	}
	if k.done || line.Msg != "stage" || line.Stage != k.step || line.Batch < k.batch {
		return nil
	}
	k.done = true
	switch {
	case k.victim == "session":
		return k.sql(ctx, k.database, "select pg_terminate_backend($1)", k.backend)
	case k.victim == "worker" && len(k.workers) > 0:
		err := syscall.Kill(k.workers[k.pick%len(k.workers)], syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return nil
		}
		return err
	case k.victim == "worker":
		k.done = false // none yet: the next batch will do
		return nil
	}
	return k.process.Kill()
}

// stream runs one conveyor to its end; killed says that a signal ended it.
func (d *drill) stream(ctx context.Context, database string, k *killing) (killed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, drillRunMax)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	args := []string{"conveyor", "stream", "--source", d.dir, "--batch", "4", "--workers", "2", "--database-url", d.server.URL(database)}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := cmd.StderrPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	var last string
	var acted error
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		last = lines.Text()
		var line logLine
		if k == nil || json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		k.process = cmd.Process
		acted = errors.Join(acted, k.see(ctx, line))
	}
	err = cmd.Wait()
	killed = cmd.ProcessState.ExitCode() == -1
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(last))
	}
	return killed, errors.Join(err, acted, ctx.Err())
}
