// Package jobs owns the queue by which any number of processes, on any number of
// hosts, share the work of one database. River keeps the jobs in PostgreSQL, so an
// event is enqueued by the very transaction that makes it true. It does not know what
// a job does to a card (its Runner does). A job is tried once: what it leaves
// behind, for whatever reason, the periodic sweep takes up.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	// river: a job queue in PostgreSQL itself, with transactional insertion, leader
	// election for periodic jobs and notification; nothing of that is ours to invent.
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// What made a card worth a dispatch.
const (
	CardCreate     = "card-create"
	EvidenceChange = "evidence-change"
)

// Queue is where all jobs wait.
const Queue = "conveyor"

const (
	// chunk is how many cards one job names, at most: a batch of the usual size.
	chunk = 12
	// poolMax is River's own sessions per process: fetching, leadership, notification.
	poolMax = 4
	// stopMax bounds the end of a job that was told to stop.
	stopMax = 8 * time.Second
	// stuckAfter is when the job of a killed process is given up. A sweep that is cut
	// off by jobMax goes on where it ended, in the next one.
	jobMax     = 10 * time.Minute
	stuckAfter = 11 * time.Minute
)

// CardArgs asks for a dispatch of some cards.
type CardArgs struct {
	Cards  []int64 `json:"cards"`
	Reason string  `json:"reason"`
}

// Kind implements river.JobArgs.
func (CardArgs) Kind() string { return "conveyor-cards" }

// InsertOpts implements river.JobArgsWithInsertOpts.
func (CardArgs) InsertOpts() river.InsertOpts { return river.InsertOpts{Queue: Queue, MaxAttempts: 1} }

// SweepArgs asks for a sweep.
type SweepArgs struct{}

// Kind implements river.JobArgs.
func (SweepArgs) Kind() string { return "conveyor-sweep" }

// InsertOpts implements river.JobArgsWithInsertOpts.
func (SweepArgs) InsertOpts() river.InsertOpts { return river.InsertOpts{Queue: Queue, MaxAttempts: 1} }

// Migrate brings River's own tables to their newest version. It is safe to run again.
func Migrate(ctx context.Context, url string) error {
	return pooled(ctx, url, "migrate", func(pool *pgxpool.Pool) error {
		migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return fmt.Errorf("prepare migrations of jobs: %w", err)
		}
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		if err != nil {
			return fmt.Errorf("migrate jobs: %w", err)
		}
		return nil
	})
}

func pooled(ctx context.Context, url, name string, body func(*pgxpool.Pool) error) error {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("parse database url: %w", err)
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = "conveyor/" + name
	cfg.MaxConns = poolMax
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("open pool conveyor/%s: %w", name, err)
	}
	defer pool.Close()
	return body(pool)
}

// Enqueue adds jobs for the cards within a transaction of its caller: they exist if
// and only if that is committed. It returns how many jobs that makes.
func Enqueue(ctx context.Context, tx pgx.Tx, reason string, cards []int64) (int, error) {
	client, err := river.NewClient(riverpgxv5.New(nil), &river.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, fmt.Errorf("prepare jobs: %w", err)
	}
	var params []river.InsertManyParams
	for part := range slices.Chunk(cards, chunk) {
		params = append(params, river.InsertManyParams{Args: CardArgs{Cards: part, Reason: reason}})
	}
	if len(params) == 0 {
		return 0, nil
	}
	inserted, err := client.InsertManyFastTx(ctx, tx, params)
	if err != nil {
		return 0, fmt.Errorf("enqueue %d jobs: %w", len(params), err)
	}
	return inserted, nil
}

// Runner does what jobs ask for. It is called by one goroutine at a time.
type Runner interface {
	// Cards dispatches the cards, and what else a batch has room for.
	Cards(ctx context.Context, reason string, cards []int64) error
	// Sweep takes up what was left behind.
	Sweep(ctx context.Context) error
	// Lost says that nothing can be done in this process any more.
	Lost() error
}

// Config says how to work.
type Config struct {
	// URL of the database; empty means the PG* environment.
	URL string
	// Every is the time between two sweeps, over all processes; at least a second.
	Every time.Duration
	// Log receives River's warnings.
	Log *slog.Logger
}

// Work takes jobs until the context ends or the runner is lost. One job at a time per
// process: a dispatch has worker processes of its own.
func Work(ctx context.Context, cfg Config, runner Runner) error {
	return pooled(ctx, cfg.URL, "river", func(pool *pgxpool.Pool) error {
		ctx, lost := context.WithCancelCause(ctx)
		defer lost(nil)
		client, err := river.NewClient(riverpgxv5.New(pool), config(cfg, &work{runner: runner, lost: lost}))
		if err != nil {
			return fmt.Errorf("prepare work: %w", err)
		}
		err = client.Start(context.WithoutCancel(ctx))
		if err != nil {
			return fmt.Errorf("start work: %w", err)
		}
		cfg.Log.Info("working", "queue", Queue)
		<-ctx.Done()
		return errors.Join(context.Cause(ctx), stop(ctx, client))
	})
}

func stop(ctx context.Context, client *river.Client[pgx.Tx]) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopMax)
	defer cancel()
	err := client.StopAndCancel(ctx)
	if err != nil {
		return fmt.Errorf("stop work: %w", err)
	}
	return nil
}

func config(cfg Config, w *work) *river.Config {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(w.cards))
	river.AddWorker(workers, river.WorkFunc(w.sweep))
	every := max(cfg.Every, time.Second)
	once := func() (river.JobArgs, *river.InsertOpts) {
		return SweepArgs{}, &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByPeriod: every}}
	}
	return &river.Config{
		Queues: map[string]river.QueueConfig{Queue: {MaxWorkers: 1}}, Workers: workers,
		JobTimeout: jobMax, RescueStuckJobsAfter: stuckAfter, Logger: cfg.Log,
		PeriodicJobs: []*river.PeriodicJob{
			river.NewPeriodicJob(river.PeriodicInterval(every), once, &river.PeriodicJobOpts{RunOnStart: true}),
		},
	}
}

// work is the jobs' side of a runner.
type work struct {
	runner Runner
	lost   context.CancelCauseFunc
}

func (w *work) cards(ctx context.Context, job *river.Job[CardArgs]) error {
	return w.done(w.runner.Cards(ctx, job.Args.Reason, job.Args.Cards))
}

func (w *work) sweep(ctx context.Context, _ *river.Job[SweepArgs]) error {
	return w.done(w.runner.Sweep(ctx))
}

// done ends the process's work with its means: a job that failed by itself does not.
func (w *work) done(err error) error {
	if lost := w.runner.Lost(); lost != nil {
		w.lost(errors.Join(lost, err))
	}
	return err
}
