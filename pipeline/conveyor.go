package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"deadwire/pipeline/catalogue"
	"deadwire/pipeline/dispatch"
	"deadwire/pipeline/fetch"
	"deadwire/pipeline/session"
	"deadwire/pipeline/worker"
)

const (
	// runMax is the longest run id, in bytes: the ledger's ids add to it and must
	// fit 64.
	runMax = 40
	// leaveMax is how long the workers have to end their jobs when a stream ends.
	leaveMax = 3 * time.Second
	// scopeDefault is the whole catalogue.
	scopeDefault = "full-catalog"
)

// Config says what a conveyor works on and with what.
type Config struct {
	// Database opens every session: the coordinator's, the slot's, the workers'.
	Database session.Config
	// Source is the folder or base URL that images come from.
	Source string
	// Run is the id that the data carries; default: minted from batch and time.
	Run string
	// Scope is what one stream at a time may work on; default "full-catalog".
	Scope string
	// Batch is the number of cards in a batch; default 12.
	Batch int
	// Workers is the number of compute processes; default 3.
	Workers int
	// RecycleAfter replaces a worker after so many jobs; 0 means never.
	RecycleAfter int
	// Fetchers is the number of fetches at a time; default 6.
	Fetchers int
	// Slots, MaxBatches, ThrottleRetries and ThrottleWait are those of dispatch.Config.
	Slots, MaxBatches, ThrottleRetries int
	ThrottleWait                       time.Duration
	// Rate is in fetches per second over all processes that share the database; 0
	// means the destination's own, and no pacing for one without.
	Rate float64
	// CrashesMax and PoisonAfter are those of dispatch.Config.
	CrashesMax, PoisonAfter int
	// WorkerArgs lead from our own program to its worker mode.
	WorkerArgs []string
	// Seam is empty in production.
	Seam worker.Seam
	// Stderr receives the log, one JSON object per line, and the workers' own;
	// default: nothing.
	Stderr io.Writer
}

// ConfigError says which setting cannot be used.
type ConfigError struct{ Setting, Reason string }

func (e *ConfigError) Error() string { return e.Setting + " " + e.Reason }

func (c Config) withDefaults(now time.Time) Config {
	if c.Batch == 0 {
		c.Batch = 12
	}
	if c.Workers == 0 {
		c.Workers = 3
	}
	if c.Fetchers == 0 {
		c.Fetchers = 6
	}
	if c.Scope == "" {
		c.Scope = scopeDefault
	}
	if c.Run == "" {
		c.Run = fmt.Sprintf("stage-e-fullcat-b%d-%d", c.Batch, now.UnixMicro())
	}
	if c.Stderr == nil {
		c.Stderr = io.Discard
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Batch < 1 || c.Batch > 10000:
		return &ConfigError{"batch", "must be between 1 and 10000"}
	case c.Workers < 1 || c.Workers > 1000:
		return &ConfigError{"workers", "must be between 1 and 1000"}
	case c.Fetchers < 1 || c.Fetchers > 1000:
		return &ConfigError{"fetchers", "must be between 1 and 1000"}
	case c.Rate < 0:
		return &ConfigError{"rate", "must not be negative"}
	case c.RecycleAfter < 0:
		return &ConfigError{"recycle-after", "must not be negative"}
	case len(c.Run) > runMax:
		return &ConfigError{"run-id", fmt.Sprintf("must not be longer than %d bytes", runMax)}
	case len(c.Scope) > 64:
		return &ConfigError{"scope", "must not be longer than 64 bytes"}
	}
	return nil
}

// Conveyor is a configured pipeline.
type Conveyor struct {
	cfg    Config
	source catalogue.Source
	log    *slog.Logger
}

// New checks the configuration; it opens nothing.
func New(cfg Config) (*Conveyor, error) {
	cfg = cfg.withDefaults(time.Now())
	err := cfg.validate()
	if err != nil {
		return nil, err
	}
	source, err := catalogue.ParseSource(cfg.Source)
	if err != nil {
		return nil, err
	}
	return &Conveyor{cfg: cfg, source: source, log: NewLogger(cfg.Stderr).With("run", cfg.Run)}, nil
}

// Stream works through the catalogue until nothing is eligible. The coordinator's
// session is opened before the first worker starts and used until after the last
// one left. The summary is meaningful beside an error, too.
func (c *Conveyor) Stream(ctx context.Context) (summary dispatch.Summary, err error) {
	coordinator, err := session.Open(ctx, c.cfg.Database, "coordinator")
	if err != nil {
		return dispatch.Summary{Run: c.cfg.Run, Status: dispatch.Stopped}, err
	}
	defer func() { err = c.closed(coordinator.Close(ctx), err) }()
	c.log.Info("coordinator session ready", "pid", os.Getpid(), "backend_pid", coordinator.BackendPID())
	err = coordinator.LockScope(ctx, c.cfg.Scope)
	if err != nil {
		return dispatch.Summary{Run: c.cfg.Run, Status: dispatch.Stopped}, err
	}
	return c.streamOn(ctx, coordinator)
}

func (c *Conveyor) streamOn(ctx context.Context, coordinator *session.Session) (dispatch.Summary, error) {
	pace := c.paced()
	defer pace.close(ctx)
	fetcher := fetch.New(fetch.Config{Fetchers: c.cfg.Fetchers, Admit: pace.admit})
	defer fetcher.Close()
	stageC := &extractor{conveyor: c, fetcher: fetcher, pace: pace, session: coordinator}
	defer stageC.close(ctx)
	return dispatch.New(c.dispatchConfig(), coordinator, stageC).Stream(ctx)
}

func (c *Conveyor) dispatchConfig() dispatch.Config {
	return dispatch.Config{
		Run: c.cfg.Run, Attempt: strconv.FormatInt(time.Now().UnixMicro(), 36), Scope: c.cfg.Scope, Revision: revision(),
		Batch: c.cfg.Batch, Slots: c.cfg.Slots, MaxBatches: c.cfg.MaxBatches,
		ThrottleRetries: c.cfg.ThrottleRetries, ThrottleWait: c.cfg.ThrottleWait,
		CrashesMax: c.cfg.CrashesMax, PoisonAfter: c.cfg.PoisonAfter, Versions: Manifest(), Sessions: c.cfg.Database, Log: c.log,
	}
}

// closed reports a bad end of the coordinator's session only when nothing worse
// happened before.
func (c *Conveyor) closed(closing, err error) error {
	if err != nil && closing != nil {
		c.log.Warn("coordinator session ended badly", "error", closing.Error())
		return err
	}
	return errors.Join(err, closing)
}

// revision is the version control revision that the program was built from.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return ""
}
