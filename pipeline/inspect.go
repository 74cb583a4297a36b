package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"deadwire/pipeline/jobs"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// statusRuns is how many of the newest ledger rows a status shows.
const statusRuns = 10

// Status is the state of the work, read from the database.
type Status struct {
	Totals Totals `json:"totals"`
	Runs   []Run  `json:"runs"`
}

// Totals counts what is stored. Abandoned are RUNNING rows without a live stream.
type Totals struct {
	Cards        int64 `json:"cards"`
	Hashed       int64 `json:"hashed"`
	Extracted    int64 `json:"extracted"`
	Evidence     int64 `json:"evidence"`
	Votes        int64 `json:"votes"`
	NoMatchVotes int64 `json:"no_match_votes"`
	ScanLogs     int64 `json:"scan_logs"`
	Running      int64 `json:"running"`
	Abandoned    int64 `json:"abandoned"`
	Completed    int64 `json:"completed"`
	Failed       int64 `json:"failed"`
	Throttled    int64 `json:"throttled"`
	OpenTrips    int64 `json:"open_trips"`
	Resolved     int64 `json:"resolved"`
}

// Run is one ledger row.
type Run struct {
	RunID         string     `json:"run_id"`
	DataRunID     string     `json:"data_run_id"`
	Status        string     `json:"status"`
	StartedAt     time.Time  `json:"started_at"`
	FinishedAt    *time.Time `json:"finished_at,omitempty"`
	VotesWritten  int        `json:"votes_written"`
	FailureReason string     `json:"failure_reason,omitempty"`
}

// ReadStatus reads the state of the work.
func ReadStatus(ctx context.Context, database session.Config) (status Status, err error) {
	err = within(ctx, database, "status", func(s *session.Session) error {
		totals, err := session.Rows[Totals](ctx, s, schema.StatusCounts, Manifest())
		if err != nil {
			return fmt.Errorf("status: %w", err)
		}
		status.Totals = totals[0]
		status.Runs, err = session.Rows[Run](ctx, s, schema.StatusRuns, statusRuns)
		if err != nil {
			return fmt.Errorf("status-runs: %w", err)
		}
		return nil
	})
	return status, err
}

// Finding is what the check of one invariant found.
type Finding struct {
	Invariant string   `json:"invariant"`
	Number    int      `json:"number"`
	Promise   string   `json:"promise"`
	OK        bool     `json:"ok"`
	Breaches  []string `json:"breaches,omitempty"`
}

// Check runs every invariant's query; those that hold only at rest are left out
// unless atRest is set.
func Check(ctx context.Context, database session.Config, atRest bool) (findings []Finding, err error) {
	err = within(ctx, database, "check", func(s *session.Session) error {
		for _, invariant := range schema.Invariants() {
			if invariant.AtRest && !atRest {
				continue
			}
			breaches, err := session.Column[string](ctx, s, invariant.SQL)
			if err != nil {
				return fmt.Errorf("check %s: %w", invariant.Name, err)
			}
			findings = append(findings, Finding{
				Invariant: invariant.Name, Number: invariant.Number, Promise: invariant.Promise,
				OK: len(breaches) == 0, Breaches: breaches,
			})
		}
		return nil
	})
	return findings, err
}

// Migrate brings the database, jobs included, to the newest version and returns the versions
// before and after.
func Migrate(ctx context.Context, database session.Config) (from, to int32, err error) {
	err = within(ctx, database, "migrate", func(s *session.Session) error {
		from, to, err = schema.Migrate(ctx, s.Raw())
		return err
	})
	if err == nil {
		err = jobs.Migrate(ctx, database.URL)
	}
	return from, to, err
}

// within runs body on a session that it opens and closes.
func within(ctx context.Context, database session.Config, name string, body func(*session.Session) error) (err error) {
	s, err := session.Open(ctx, database, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	return body(s)
}
