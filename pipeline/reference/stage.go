package reference

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"deadwire/pipeline/deduce"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// chunk is the number of rows of one COPY; a slow source never keeps one open.
const chunk = 2000

// Reasons for which an object is no printing.
const (
	SkipNotCard    = "not-a-card"
	SkipDigital    = "digital"
	SkipArtSeries  = "art-series"
	SkipIncomplete = "incomplete"
	SkipNumber     = "number-too-long"
)

// numberMax is the longest collector number that the schema holds, in characters.
const numberMax = 16

// tally counts what was read
type tally struct {
	objects, kept int
	skipped       map[string]int
}

// plausible refuses data of which hardly anything could be used: a format that
// changed must stop the run, not empty the reference.
func (t tally) plausible() error {
	const tolerated = 20 // one in so many
	if t.kept == 0 {
		return &FormatError{Reason: fmt.Sprintf("no printing among %d objects", t.objects)}
	}
	if n := t.skipped[SkipIncomplete] + t.skipped[SkipNotCard]; n*tolerated > t.objects {
		return &FormatError{Reason: fmt.Sprintf("%d of %d objects have not what a printing needs", n, t.objects)}
	}
	return nil
}

// stage copies the printings into a table that only this session has.
func stage(ctx context.Context, s *session.Session, cards iter.Seq2[card, error]) (tally, error) {
	t := tally{skipped: map[string]int{}}
	if _, err := s.Exec(ctx, schema.ReferenceStage); err != nil {
		return t, fmt.Errorf("make staging table: %w", err)
	}
	rows := make([][]any, 0, chunk)
	for c, err := range cards {
		if err != nil {
			return t, err
		}
		t.objects++
		row, reason := rowOf(c)
		if reason != "" {
			t.skipped[reason]++
			continue
		}
		t.kept++
		if rows = append(rows, row); len(rows) == chunk {
			if err := copyRows(ctx, s, rows); err != nil {
				return t, err
			}
			rows = rows[:0]
		}
	}
	if err := copyRows(ctx, s, rows); err != nil {
		return t, err
	}
	_, err := s.Exec(ctx, schema.ReferenceAnalyze) // the planner knows nothing of a new table
	return t, err
}

func copyRows(ctx context.Context, s *session.Session, rows [][]any) error {
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	_, err := s.Raw().CopyFrom(ctx, pgx.Identifier{schema.ReferenceTable()}, schema.ReferenceColumns(), pgx.CopyFromRows(rows))
	if err != nil {
		return fmt.Errorf("copy printings: %w", err)
	}
	return nil
}

var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// rowOf is a printing in the order of schema.ReferenceColumns, or why it is none
func rowOf(c card) (row []any, reason string) {
	var first face
	if len(c.Faces) > 0 {
		first = c.Faces[0]
	}
	oracle := either(c.OracleID, first.OracleID)
	switch {
	case c.Object != "card":
		return nil, SkipNotCard
	case c.Digital:
		return nil, SkipDigital
	case c.Layout == "art_series":
		return nil, SkipArtSeries
	case !uuidForm.MatchString(c.ID) || !uuidForm.MatchString(oracle) || c.Name == "" || c.Set == "" || c.CollectorNumber == "":
		return nil, SkipIncomplete
	case len([]rune(c.CollectorNumber)) > numberMax:
		return nil, SkipNumber
	}
	name, front, back := names(c)
	return []any{
		uuidOf(c.ID), uuidOf(oracle), c.Name, name, strings.ToLower(c.Set), c.CollectorNumber, either(c.Artist, first.Artist),
		c.BorderColor, c.Frame, dateOf(c.ReleasedAt), uuidOf(either(c.IllustrationID, first.IllustrationID)), c.Layout,
		either(c.Lang, "en"), either(c.ImageURIs["art_crop"], first.ImageURIs["art_crop"]), faces(c), front, back,
	}, ""
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// names returns the normalised name by which scans call the card, and the names of
// both faces when they are on two sides.
func names(c card) (name string, front, back *string) {
	switch c.Layout {
	case "transform", "modal_dfc", "double_faced_token", "reversible_card", "battle":
		if len(c.Faces) == 2 {
			return deduce.NormalName(c.Faces[0].Name), &c.Faces[0].Name, &c.Faces[1].Name
		}
	}
	return deduce.NormalName(c.Name), nil, nil
}

func uuidOf(text string) pgtype.UUID {
	var u pgtype.UUID
	if uuidForm.MatchString(text) {
		_ = u.Scan(text) // the form was checked
	}
	return u
}

func dateOf(text string) pgtype.Date {
	at, err := time.Parse(time.DateOnly, text)
	return pgtype.Date{Time: at, Valid: err == nil}
}

// faces are the illustrations of a card that has several, as JSON
func faces(c card) []byte {
	type illustration struct {
		Name           string `json:"name"`
		Artist         string `json:"artist"`
		IllustrationID string `json:"illustration_id"`
	}
	out := []illustration{}
	for _, f := range c.Faces {
		if f.IllustrationID != "" {
			out = append(out, illustration{f.Name, f.Artist, f.IllustrationID})
		}
	}
	data, err := json.Marshal(out)
	if err != nil {
		panic(err) // strings always marshal
	}
	return data
}

// pair is a two-faced card's names with their normal forms
type pair struct {
	Front       string `json:"front_name"`
	Back        string `json:"back_name"`
	NormalFront string `json:"normal_front"`
	NormalBack  string `json:"normal_back"`
}

// store writes the difference between what is staged and what is stored.
func store(ctx context.Context, tx *session.Tx, report *Report, digest string) error {
	if _, err := tx.Exec(ctx, schema.ReferenceLock); err != nil {
		return fmt.Errorf("lock reference: %w", err)
	}
	changes, err := session.Rows[Changes](ctx, tx, schema.ReferenceDiff)
	if err != nil {
		return fmt.Errorf("store printings: %w", err)
	}
	report.Changes = changes[0]
	type faced struct{ Front, Back string }
	found, err := session.Tuples[faced](ctx, tx, schema.ReferencePairs)
	if err != nil {
		return fmt.Errorf("read pairs: %w", err)
	}
	pairs := make([]pair, 0, len(found))
	for _, f := range found {
		pairs = append(pairs, pair{f.Front, f.Back, deduce.NormalName(f.Front), deduce.NormalName(f.Back)})
	}
	if report.Pairs, err = tx.Exec(ctx, schema.ReferencePairsStore, pairs); err != nil {
		return fmt.Errorf("store pairs: %w", err)
	}
	_, err = tx.Exec(ctx, schema.ReferenceVintageStore, report.Location, report.Vintage, digest, report.Printings)
	if err != nil {
		return fmt.Errorf("store vintage: %w", err)
	}
	return nil
}
