package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"deadwire/pipeline"
	"deadwire/pipeline/dispatch"
	"deadwire/pipeline/metrics"
)

// The kill switches of a host, on unless they say false: every dispatch, and the use of
// what is known of the same bytes.
const (
	enabledEnv  = "STAGE_E_STREAMING_ENABLED"
	transferEnv = "STAGE_C_EVIDENCE_TRANSFER_ENABLED"
)

// driver is what the commands share that dispatch batches.
type driver struct {
	cfg     pipeline.Config
	asJSON  bool
	metrics string
	rssMax  int64
	verbose bool
	dryRun  bool
	// set by complete
	progress *progress
}

// workFlags are those of everything that computes.
func (d *driver) workFlags(flags *pflag.FlagSet) {
	cfg := &d.cfg
	flags.StringVar(&cfg.Source, "source", "", "`URL or DIR` that images come from")
	flags.StringVar(&cfg.Run, "run-id", "", "run `ID` that the data carries, at most 40 bytes (default: minted)")
	flags.IntVar(&cfg.Batch, "batch", 12, "cards in a batch")
	flags.IntVar(&cfg.Workers, "workers", 3, "compute processes")
	flags.IntVar(&cfg.RecycleAfter, "recycle-after", 0, "jobs after which a worker is replaced; 0: never")
	flags.IntVar(&cfg.Fetchers, "fetchers", 6, "fetches at a time")
	flags.IntVar(&cfg.Slots, "slots", 6, "dispatches at a time in this database")
	flags.Float64Var(&cfg.Rate, "rate", 0, "fetches per second, over all processes on this database; 0: the source's own limit")
	flags.IntVar(&cfg.CrashesMax, "crashes-max", 0, "batches ended by a worker's death to outlive; 0: end at the first")
	flags.IntVar(&cfg.PoisonAfter, "poison-after", 3, "workers that a card may kill in a row before it is parked")
	flags.Float64Var(&cfg.Bars.Load, "load-max", 0, "1-minute load average above which work halts; 0: whatever it is")
	flags.Float64Var(&cfg.LoadSoft, "load-soft", 0, "load average from which dispatches wait for calm (default: 0.64 of load-max)")
	flags.Int64Var(&d.rssMax, "rss-max", 1024, "megabytes of one process above which work halts; 0: no bound")
	flags.Float64Var(&cfg.Bars.Failures, "failures-max", 0.01, "share of failed fetches above which work halts, of the last 500, at least 100; 0: no bound")
	flags.StringVar(&d.metrics, "metrics", "", "serve Prometheus metrics on this `ADDRESS`, such as 127.0.0.1:9187")
	flags.BoolVar(&d.asJSON, "json", false, "print the result as one JSON object")
	flags.BoolVarP(&d.verbose, "verbose", "v", false, "write the whole log on a terminal, too")
}

// passFlags are those of a pass with an end.
func (d *driver) passFlags(flags *pflag.FlagSet) {
	d.workFlags(flags)
	flags.IntVar(&d.cfg.MaxBatches, "max-batches", 0, "end after so many batches; 0: no bound")
	flags.BoolVar(&d.dryRun, "dry-run", false, "only say what there is to do; write nothing")
}

// scopeFlags are those of a pass over a scope with a resume mark.
func (d *driver) scopeFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	d.passFlags(flags)
	flags.StringVar(&d.cfg.Scope, "scope", "", "`NAME` of the work, which has one stream at a time and one resume mark (default: full-catalog, or the sources)")
	flags.StringSliceVar(&d.cfg.Sources, "only", nil, "work on cards of this catalogue source only (`KEY`, repeatable)")
	flags.Func("start-after", "begin behind the card with this `KEY`, whatever the resume mark says", func(word string) error {
		position, err := strconv.ParseInt(word, 10, 64)
		if err == nil && position < 0 {
			err = errors.New("must not be negative")
		}
		d.cfg.StartAfter = &position
		return err
	})
	flags.IntVar(&d.cfg.ThrottleRetries, "throttle-retries", 20, "consecutive refusals of a slot to sit out")
	flags.DurationVar(&d.cfg.ThrottleWait, "throttle-wait", 0, "first wait after a refusal, doubling (default 5s)")
}

// complete fills in what flags alone do not say.
func (d *driver) complete(a *app, cmd *cobra.Command) error {
	cfg := &d.cfg
	cfg.Database, cfg.WorkerArgs, cfg.Seam = a.database, a.options.WorkerArgs, a.options.Seam
	cfg.Stderr = cmd.ErrOrStderr()
	cfg.Bars.RSS, cfg.Bars.Outcomes = d.rssMax<<20, 100
	if cfg.LoadSoft == 0 {
		cfg.LoadSoft = cfg.Bars.Load * 4.5 / 7
	}
	for name, off := range map[string]*bool{enabledEnv: &cfg.Disabled, transferEnv: &cfg.NoTransfer} {
		var err error
		*off, err = switchedOff(name)
		if err != nil {
			return err
		}
	}
	d.progress = progressTo(cmd.ErrOrStderr(), time.Now())
	if d.progress.terminal && !d.verbose {
		cfg.Level = slog.LevelError
	}
	cfg.Progress = d.progress.show
	return nil
}

func switchedOff(name string) (bool, error) {
	word, set := os.LookupEnv(name)
	if !set {
		return false, nil
	}
	on, err := strconv.ParseBool(word)
	if err != nil {
		return false, fmt.Errorf("%s must be true or false, not %q", name, word)
	}
	return !on, nil
}

// under runs body until it is done, or until SIGINT or SIGTERM: then the batch is
// failed truthfully and the error names the signal. SIGPIPE is ignored, so that a
// reader who left does not end the work. Metrics are served meanwhile when asked for.
func (d *driver) under(a *app, cmd *cobra.Command, body func(context.Context, *pipeline.Conveyor) error) (err error) {
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = d.complete(a, cmd)
	if err != nil {
		return err
	}
	if d.metrics != "" {
		numbers := metrics.New()
		d.cfg.Done = numbers.Observe
		at, wait, err := numbers.Serve(context.WithoutCancel(ctx), d.metrics)
		if err != nil {
			return err
		}
		defer func() { _ = wait() }() // a scraper that hangs on changes nothing
		pipeline.NewLogger(d.cfg.Stderr).Info("metrics served", "address", at)
	}
	conveyor, err := pipeline.New(d.cfg)
	if err != nil {
		return err
	}
	return body(ctx, conveyor)
}

// pass runs a stream or sweep and prints its summary, whatever its ending; or only says
// what it would do.
func (d *driver) pass(a *app, cmd *cobra.Command, run func(*pipeline.Conveyor, context.Context) (dispatch.Summary, error)) error {
	if d.dryRun {
		return d.plan(a, cmd)
	}
	return d.under(a, cmd, func(ctx context.Context, conveyor *pipeline.Conveyor) error {
		summary, err := run(conveyor, ctx)
		return d.summed(cmd, summary, err)
	})
}

func (d *driver) summed(cmd *cobra.Command, summary dispatch.Summary, err error) error {
	d.progress.clear()
	result := streamed{Summary: summary, ExitCode: ExitCode(err)}
	if err == nil {
		err = ended(cmd.Name(), summary)
		result.ExitCode = ExitCode(err)
	}
	if err != nil {
		result.Error = err.Error()
		err = fmt.Errorf("%s: %w", cmd.Name(), err)
	}
	if failed, ok := errors.AsType[*dispatch.BatchError](err); ok {
		result.FailedLedger, result.LedgerState = failed.Ledger, failed.State
	}
	// The ledger is written already: a reader who left takes nothing back.
	_ = printed(cmd, d.asJSON, result, result.text())
	return err
}
