package command

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"deadwire/pipeline"
	"deadwire/pipeline/dispatch"
)

func (a *app) stream() *cobra.Command {
	var cfg pipeline.Config
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stream --source URL|DIR",
		Short: "Work through the catalogue, batch by batch, until nothing is eligible",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Database, cfg.WorkerArgs, cfg.Seam = a.database, a.options.WorkerArgs, a.options.Seam
			cfg.Stderr = cmd.ErrOrStderr()
			return stream(cmd, cfg, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Source, "source", "", "`URL or DIR` that images come from")
	flags.StringVar(&cfg.Run, "run-id", "", "run `ID` that the data carries, at most 40 bytes (default: minted)")
	flags.StringVar(&cfg.Scope, "scope", "full-catalog", "`NAME` of the work; one stream at a time per scope")
	flags.IntVar(&cfg.Batch, "batch", 12, "cards in a batch")
	flags.IntVar(&cfg.Workers, "workers", 3, "compute processes")
	flags.IntVar(&cfg.RecycleAfter, "recycle-after", 0, "jobs after which a worker is replaced; 0: never")
	flags.IntVar(&cfg.Fetchers, "fetchers", 6, "fetches at a time")
	flags.IntVar(&cfg.Slots, "slots", 6, "dispatches at a time in this database")
	flags.IntVar(&cfg.MaxBatches, "max-batches", 0, "end after so many batches; 0: no bound")
	flags.Float64Var(&cfg.Rate, "rate", 0, "fetches per second, over all processes on this database; 0: the source's own limit")
	flags.IntVar(&cfg.CrashesMax, "crashes-max", 0, "batches ended by a worker's death to outlive; 0: end at the first")
	flags.IntVar(&cfg.PoisonAfter, "poison-after", 3, "workers that a card may kill in a row before it is parked")
	flags.IntVar(&cfg.ThrottleRetries, "throttle-retries", 20, "consecutive refusals of a slot to sit out")
	flags.DurationVar(&cfg.ThrottleWait, "throttle-wait", 0, "first wait after a refusal, doubling (default 5s)")
	flags.BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	_ = cmd.MarkFlagRequired("source") // the flag was defined above
	return cmd
}

// stream runs until done, or until SIGINT or SIGTERM: then the batch is failed
// truthfully and the error names the signal. SIGPIPE is ignored, so that a reader who
// left does not end the work.
func stream(cmd *cobra.Command, cfg pipeline.Config, asJSON bool) error {
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	conveyor, err := pipeline.New(cfg)
	if err != nil {
		return err
	}
	summary, err := conveyor.Stream(ctx)
	result := streamed{Summary: summary, ExitCode: ExitCode(err)}
	if err == nil {
		err = ended(summary)
		result.ExitCode = ExitCode(err)
	}
	if err != nil {
		result.Error = err.Error()
		err = fmt.Errorf("stream: %w", err)
	}
	if failed, ok := errors.AsType[*dispatch.BatchError](err); ok {
		result.FailedLedger, result.LedgerState = failed.Ledger, failed.State
	}
	// The ledger is written already: a reader who left takes nothing back.
	_ = printed(cmd, asJSON, result, result.text())
	return err
}

// streamed is the result of the command stream.
type streamed struct {
	dispatch.Summary
	ExitCode     int    `json:"exit_code"`
	Error        string `json:"error,omitempty"`
	FailedLedger string `json:"failed_ledger,omitempty"`
	LedgerState  string `json:"ledger_state,omitempty"`
}

func (s streamed) text() string {
	return fmt.Sprintf("%s: run %s, %d batches, %d cards, %d extracted, %d votes, %d no match, %d propagated, %d skipped, %d fetch failures, %d damaged, %d parked, %.2f s\n",
		s.Status, s.Run, s.Batches, s.Cards, s.Extracted, s.Votes, s.NoMatches, s.Propagated, s.Skips, s.FetchFailures, s.Damaged, s.Parked, s.ElapsedS)
}
