// Package reference owns Stage 0: the import of the catalogue of official printings
// from Scryfall-format bulk data, and whether the stored one is fresh. It does not
// know cards or images, and it downloads nothing that it does not import. The bulk
// data is authoritative about printings; a row that votes may refer to is never deleted.
package reference

import (
	"context"
	"errors"
	"fmt"
	"time"

	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// statementMax bounds each statement of an import: the difference of a hundred
// thousand printings takes seconds.
const statementMax = 10 * time.Minute

// Vintage says which bulk data is stored.
type Vintage struct {
	Location string `json:"location"` // password masked
	// Vintage is what the source says of its age: updated_at of the bulk-data object,
	// else ETag or Last-Modified, else a file's time and size, else its digest.
	Vintage    string    `json:"vintage"`
	Digest     string    `json:"digest"` // SHA-256 of the data after decompression
	Printings  int       `json:"printings"`
	ImportedAt time.Time `json:"imported_at"`
}

// Report is what an import found and did.
type Report struct {
	Location string         `json:"location"`
	Vintage  string         `json:"vintage"`
	Previous string         `json:"previous,omitempty"` // the vintage that was stored before
	Fresh    bool           `json:"fresh"`              // the stored vintage was this one: nothing was read
	Read     int            `json:"read"`               // objects
	Bytes    int64          `json:"bytes"`              // after decompression
	Skipped  map[string]int `json:"skipped,omitempty"`  // objects that are no printing, by reason
	Changes
}

// Changes counts the rows that were written.
type Changes struct {
	Printings int64 `json:"printings"` // that the data lists, one per slot
	Inserted  int64 `json:"inserted"`
	Updated   int64 `json:"updated"`
	Retired   int64 `json:"retired"` // not listed any more, and its slot now another's
	Pairs     int64 `json:"pairs"`   // two-faced cards whose names changed
}

// Options vary an import.
type Options struct {
	Force  bool          // read the data even when the stored vintage is fresh
	Client httpDoer      // default: one with bounded waits
	Stall  time.Duration // of a source that sends nothing; default 60 s
}

// Stored returns the stored vintage, the zero value when nothing was imported yet.
func Stored(ctx context.Context, q session.Querier) (Vintage, error) {
	rows, err := session.Rows[Vintage](ctx, q, schema.ReferenceVintage)
	if err != nil || len(rows) == 0 {
		return Vintage{}, err
	}
	return rows[0], nil
}

// Check compares the stored vintage with the source's, and reads no more of the
// source than that takes.
func Check(ctx context.Context, database session.Config, location string, opts Options) (report Report, err error) {
	s, err := session.Open(ctx, database, "reference")
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	offer, report, err := look(ctx, s, location, opts)
	if err != nil {
		return report, err
	}
	return report, offer.close()
}

func look(ctx context.Context, s *session.Session, location string, opts Options) (*offer, Report, error) {
	offer, err := open(ctx, location, opts)
	if err != nil {
		return nil, Report{}, err
	}
	report := Report{Location: offer.location, Vintage: offer.vintage}
	stored, err := Stored(ctx, s)
	if err != nil {
		return nil, report, errors.Join(fmt.Errorf("read vintage: %w", err), offer.close())
	}
	report.Previous = stored.Vintage
	report.Fresh = offer.vintage != "" && stored.Vintage == offer.vintage && stored.Location == offer.location
	return offer, report, nil
}

// Import brings the stored printings to what the bulk data at location (a file's path
// or an http or https URL; plain or gzip) says. It writes only rows that differ, and
// nothing at all when the vintage is the stored one. On an error nothing was changed.
func Import(ctx context.Context, database session.Config, location string, opts Options) (report Report, err error) {
	database.Timeout = max(database.Timeout, statementMax)
	s, err := session.Open(ctx, database, "reference")
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	offer, report, err := look(ctx, s, location, opts)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, offer.close()) }()
	if report.Fresh && !opts.Force {
		return report, nil
	}
	read, err := stage(ctx, s, offer.cards())
	if err != nil {
		return report, fmt.Errorf("import %s: %w", offer.location, err)
	}
	report.Read, report.Skipped, report.Bytes = read.objects, read.skipped, offer.bytes()
	if err = read.plausible(); err != nil {
		return report, fmt.Errorf("import %s: %w", offer.location, err)
	}
	if report.Vintage == "" {
		report.Vintage = "sha256:" + offer.digest()
	}
	err = s.InTx(ctx, func(tx *session.Tx) error { return store(ctx, tx, &report, offer.digest()) })
	return report, err
}
