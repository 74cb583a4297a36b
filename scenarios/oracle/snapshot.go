package oracle

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Snapshot is what a case's database holds after a run. Rows are ordered by
// their keys, so that equal databases give equal snapshots.
type Snapshot struct {
	Cards    []Card     `json:"cards"`
	Evidence []Evidence `json:"evidence"`
	Votes    []Vote     `json:"votes"`
	Scans    []Scan     `json:"scans"`
	Ledger   []Entry    `json:"ledger"`
	Sessions []Session  `json:"sessions"`
	Locks    []Lock     `json:"locks"`
	// Rows is what a case's own check returned, each row as one line.
	Rows []string `json:"rows,omitempty"`
}

// Card is one row of the catalogue.
type Card struct {
	Identifier string `json:"identifier"`
	Hashed     bool   `json:"hashed"` // it has a perceptual hash, so Stage C may see it
	Status     string `json:"status"`
}

// Evidence is one row of image evidence. Digest covers every computed column, and
// tells an absent value from an empty one.
type Evidence struct {
	Card   string `json:"card"`
	Hash   int64  `json:"hash"`
	RunID  string `json:"run_id"`
	Digest string `json:"digest"`
}

// Vote is one vote for a printing, or for none.
type Vote struct {
	Card       string  `json:"card"`
	Printing   string  `json:"printing,omitempty"`
	NoMatch    bool    `json:"no_match,omitempty"`
	Agent      string  `json:"agent"`
	Source     string  `json:"source"`
	Confidence float64 `json:"confidence"`
	RunID      string  `json:"run_id"`
}

// Scan is one line of the scan log.
type Scan struct {
	Card   string `json:"card"`
	Agent  string `json:"agent"`
	Reason string `json:"reason"`
	RunID  string `json:"run_id"`
}

// Entry is one row of the ledger.
type Entry struct {
	RunID    string `json:"run_id"`
	Status   string `json:"status"`
	Finished bool   `json:"finished"`
	Elapsed  bool   `json:"elapsed"` // its counters hold elapsed_s
	Reason   string `json:"reason,omitempty"`
}

// Session is one session of the subject that the server still has.
type Session struct {
	PID             int    `json:"pid"`
	ApplicationName string `json:"application_name"`
	State           string `json:"state"`
}

// Lock is one advisory lock that is held in the database.
type Lock struct {
	PID   int   `json:"pid"`
	Class int64 `json:"class"`
	Key   int64 `json:"key"`
}

const (
	cardsSQL = `select identifier, content_phash is not null, printing_tag_status from card order by identifier`

	evidenceSQL = `select c.identifier, e.content_hash, coalesce(e.run_id, ''),
  md5(row(e.extractor_versions, e.skips, e.fetch_ok, e.fetch_error_class, e.fetch_image_format, e.width, e.height,
    e.aspect_ratio, e.bleed_class, e.bleed_diff_mm, e.layout_class, e.crop_boxes, e.artbox_phash, e.truncated, e.blur_variance,
    e.entropy, e.colour_mean, e.colour_stddev, e.collector_set_code, e.collector_number, e.md5_checksum, e.sha256_checksum)::text)
from image_evidence e join card c on c.id = e.card_id order by 1, 2`

	votesSQL = `select c.identifier, coalesce(p.identifier::text, ''), v.is_no_match, v.anonymous_id, v.source,
  coalesce(v.confidence, 0), coalesce(v.run_id, '')
from card_printing_tag v join card c on c.id = v.card_id left join printing p on p.id = v.printing_id order by 1, 2, 4, 7`

	scansSQL = `select c.identifier, s.anonymous_id, s.skip_reason, coalesce(s.run_id, '')
from card_scan_log s join card c on c.id = s.card_id order by 1, 2, 3, 4`

	ledgerSQL = `select run_id, status, finished_at is not null, counters ? 'elapsed_s', coalesce(counters ->> 'failure_reason', '')
from pilot_run_ledger order by id`

	sessionsSQL = `select pid, application_name, coalesce(state, '') from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and application_name not like 'deadwire/%' and backend_type = 'client backend' order by pid`

	locksSQL = `select pid, classid::bigint, objid::bigint from pg_locks
where locktype = 'advisory' and granted and database = (select oid from pg_database where datname = current_database()) order by 1, 2, 3`
)

// Take reads the snapshot over a session that bypasses the taps.
func Take(ctx context.Context, conn *pgx.Conn) (Snapshot, error) {
	var s Snapshot
	err := firstError(
		func() error { return collect(ctx, conn, cardsSQL, &s.Cards) },
		func() error { return collect(ctx, conn, evidenceSQL, &s.Evidence) },
		func() error { return collect(ctx, conn, votesSQL, &s.Votes) },
		func() error { return collect(ctx, conn, scansSQL, &s.Scans) },
		func() error { return collect(ctx, conn, ledgerSQL, &s.Ledger) },
		func() error { return Residue(ctx, conn, &s) },
	)
	if err != nil {
		return Snapshot{}, fmt.Errorf("take snapshot: %w", err)
	}
	return s, nil
}

// Residue reads what the subject has left on the server: sessions and locks.
func Residue(ctx context.Context, conn *pgx.Conn, s *Snapshot) error {
	return firstError(
		func() error { return collect(ctx, conn, sessionsSQL, &s.Sessions) },
		func() error { return collect(ctx, conn, locksSQL, &s.Locks) },
	)
}

func collect[T any](ctx context.Context, conn *pgx.Conn, sql string, into *[]T) error {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return err
	}
	*into, err = pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	return err
}

func firstError(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// rowsMax bounds how many rows of a check are kept.
const rowsMax = 100

// Ask carries out a check, which may be several statements, and returns its rows,
// each as one line of values. A check that cannot be carried out is such a line too.
func Ask(ctx context.Context, conn *pgx.Conn, check string) []string {
	var lines []string
	results := conn.PgConn().Exec(ctx, check)
	for results.NextResult() {
		rows := results.ResultReader()
		for rows.NextRow() {
			if len(lines) < rowsMax {
				lines = append(lines, string(bytes.Join(rows.Values(), []byte(" | "))))
			}
		}
	}
	if err := results.Close(); err != nil {
		lines = append(lines, "the check failed: "+err.Error())
	}
	return lines
}
