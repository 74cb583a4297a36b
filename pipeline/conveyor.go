package pipeline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"deadwire/pipeline/catalogue"
	"deadwire/pipeline/dispatch"
	"deadwire/pipeline/envelope"
	"deadwire/pipeline/fetch"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
	"deadwire/pipeline/worker"
)

const (
	// runMax is the longest run id, in bytes: the ledger's ids add to it and must
	// fit 64.
	runMax = 40
	// scopeMax is the longest scope, in bytes.
	scopeMax = 64
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
	// Sources are the keys of the catalogue sources to work on; default: all.
	Sources []string
	// StartAfter sets the scope's mark to this card before the stream; nil: go on.
	StartAfter *int64
	// Before makes evidence from before this instant count as none.
	Before time.Time
	// Bars and LoadSoft bound the host: see package envelope. Without Bars.Load the
	// host's load neither slows nor halts.
	Bars     envelope.Bars
	LoadSoft float64
	// Disabled refuses every dispatch; NoTransfer takes no evidence from a card with the
	// same bytes.
	Disabled, NoTransfer bool
	// Done and Progress are those of dispatch.Config.
	Done     func(dispatch.Outcome)
	Progress func(dispatch.Summary)
	// Level is the least severe log line that is written; default: all.
	Level slog.Level
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
		c.Scope = scopeOf(c.Sources)
	}
	if c.Run == "" {
		c.Run = fmt.Sprintf("stage-e-fullcat-b%d-%d", c.Batch, now.UnixMicro())
	}
	if c.Stderr == nil {
		c.Stderr = io.Discard
	}
	return c
}

// scopeOf names a set of sources, so that each set has a mark of its own. A name that
// does not fit is a digest of it.
func scopeOf(sources []string) string {
	if len(sources) == 0 {
		return scopeDefault
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(sources)))
	scope := "source:" + strings.Join(sorted, ",")
	if len(scope) > scopeMax {
		sum := sha256.Sum256([]byte(scope))
		return "source:" + hex.EncodeToString(sum[:16])
	}
	return scope
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
	case len(c.Scope) > scopeMax:
		return &ConfigError{"scope", fmt.Sprintf("must not be longer than %d bytes", scopeMax)}
	case c.Bars.Load > 0 && c.LoadSoft > c.Bars.Load:
		return &ConfigError{"load-soft", "must not be higher than load-max"}
	case c.Bars.Failures < 0 || c.Bars.Failures > 1:
		return &ConfigError{"failures-max", "must be a share between 0 and 1"}
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
	return &Conveyor{cfg: cfg, source: source, log: newLogger(cfg.Stderr, cfg.Level).With("run", cfg.Run)}, nil
}

// Stream works through the catalogue until nothing is eligible. The coordinator's
// session is opened before the first worker starts and used until after the last
// one left. The summary is meaningful beside an error, too.
func (c *Conveyor) Stream(ctx context.Context) (summary dispatch.Summary, err error) {
	summary = dispatch.Summary{Run: c.cfg.Run, Status: dispatch.Stopped}
	err = c.coordinate(ctx, c.cfg.Scope, func(d *dispatch.Dispatcher) (err error) {
		summary, err = d.Stream(ctx)
		return err
	})
	return summary, err
}

// Sweep dispatches what streams and events left behind, beside them if need be.
func (c *Conveyor) Sweep(ctx context.Context) (summary dispatch.Summary, err error) {
	summary = dispatch.Summary{Run: c.cfg.Run, Status: dispatch.Stopped}
	err = c.coordinate(ctx, "", func(d *dispatch.Dispatcher) (err error) {
		summary, err = d.Sweep(ctx)
		return err
	})
	return summary, err
}

// Plan says what a stream would do. Its session may not write.
func (c *Conveyor) Plan(ctx context.Context) (plan dispatch.Plan, err error) {
	err = within(ctx, c.cfg.Database, "plan", func(s *session.Session) error {
		_, err := s.Exec(ctx, schema.ReadOnly)
		if err != nil {
			return fmt.Errorf("read-only: %w", err)
		}
		cfg, err := c.dispatchConfig(ctx, s)
		if err != nil {
			return err
		}
		plan, err = dispatch.New(cfg, s, nil).Plan(ctx)
		return err
	})
	return plan, err
}

// coordinate runs body with a dispatcher on the coordinator's session, which holds
// the scope unless that is "".
func (c *Conveyor) coordinate(ctx context.Context, scope string, body func(*dispatch.Dispatcher) error) (err error) {
	coordinator, err := session.Open(ctx, c.cfg.Database, "coordinator")
	if err != nil {
		return err
	}
	defer func() { err = c.closed(coordinator.Close(ctx), err) }()
	c.log.Info("coordinator session ready", "pid", os.Getpid(), "backend_pid", coordinator.BackendPID())
	if scope != "" {
		err = coordinator.LockScope(ctx, scope)
		if err != nil {
			return err
		}
	}
	return c.dispatched(ctx, coordinator, body)
}

func (c *Conveyor) dispatched(ctx context.Context, coordinator *session.Session, body func(*dispatch.Dispatcher) error) error {
	cfg, err := c.dispatchConfig(ctx, coordinator)
	if err != nil {
		return err
	}
	pace := c.paced()
	defer pace.close(ctx)
	fetcher := fetch.New(fetch.Config{Fetchers: c.cfg.Fetchers, Admit: pace.admit})
	defer fetcher.Close()
	stageC := &extractor{conveyor: c, fetcher: fetcher, pace: pace, session: coordinator}
	defer stageC.close(ctx)
	cfg.Memory = func() int64 { return envelope.Memory(stageC.pids()...) }
	return body(dispatch.New(cfg, coordinator, stageC))
}

func (c *Conveyor) dispatchConfig(ctx context.Context, s *session.Session) (dispatch.Config, error) {
	cfg := dispatch.Config{
		Run: c.cfg.Run, Attempt: strconv.FormatInt(time.Now().UnixMicro(), 36), Scope: c.cfg.Scope, Revision: revision(),
		Batch: c.cfg.Batch, Slots: c.cfg.Slots, MaxBatches: c.cfg.MaxBatches,
		ThrottleRetries: c.cfg.ThrottleRetries, ThrottleWait: c.cfg.ThrottleWait,
		CrashesMax: c.cfg.CrashesMax, PoisonAfter: c.cfg.PoisonAfter, Versions: Manifest(), Sessions: c.cfg.Database, Log: c.log,
		Disabled: c.cfg.Disabled, NoTransfer: c.cfg.NoTransfer, Bars: c.cfg.Bars, Before: c.cfg.Before, StartAfter: c.cfg.StartAfter, Done: c.cfg.Done, Progress: c.cfg.Progress,
	}
	if c.cfg.Bars.Load > 0 {
		host := envelope.Host()
		limits := envelope.Defaults(runtime.NumCPU(), c.cfg.LoadSoft, c.cfg.Bars.Load)
		cfg.Load, cfg.Governor = host.Load, envelope.NewGovernor(limits, host, cmp.Or(c.cfg.Slots, slotsDefault))
	}
	var err error
	cfg.Sources, err = sourceIDs(ctx, s, c.cfg.Sources)
	return cfg, err
}

// sourceIDs finds the sources by their keys, and names the first one that is unknown.
func sourceIDs(ctx context.Context, s *session.Session, keys []string) (ids []int64, err error) {
	for _, key := range keys {
		found, err := session.Column[int64](ctx, s, schema.SourceID, key)
		if err != nil {
			return nil, fmt.Errorf("source-id: %w", err)
		}
		if len(found) == 0 {
			return nil, &ConfigError{"only", fmt.Sprintf("names no source of the catalogue: %q", key)}
		}
		ids = append(ids, found...)
	}
	return ids, nil
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
