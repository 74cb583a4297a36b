package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"deadwire/pipeline/catalogue"
	"deadwire/pipeline/deduce"
	"deadwire/pipeline/jobs"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// importChunk bounds one statement of the import, in rows.
const importChunk = 2000

// Imported is what an import found and what it changed.
type Imported struct {
	Source           string `json:"source"`
	Cards            int    `json:"cards"`
	Printings        int    `json:"printings"`
	CardsChanged     int64  `json:"cards_changed"`
	PrintingsChanged int64  `json:"printings_changed"`
	// Files is set when the source has no index: then each image is a card.
	Files *Files `json:"files,omitempty"`
}

// printingRow and cardRow are the JSON rows that the import statements read.
type (
	printingRow struct {
		Identifier      string `json:"identifier"`
		CanonicalID     string `json:"canonical_id"`
		Name            string `json:"name"`
		NormalName      string `json:"normal_name"`
		SetCode         string `json:"set_code"`
		CollectorNumber string `json:"collector_number"`
		Artist          string `json:"artist"`
		BorderColor     string `json:"border_color"`
		Frame           string `json:"frame"`
		ReleasedAt      string `json:"released_at,omitempty"`
		IllustrationID  string `json:"illustration_id,omitempty"`
	}
	cardRow struct {
		Identifier   string `json:"identifier"`
		Name         string `json:"name"`
		File         string `json:"file"`
		DPI          int    `json:"dpi"`
		CardType     string `json:"card_type"`
		ContentPHash *int64 `json:"content_phash"`
		MD5          string `json:"md5"`
		SHA256       string `json:"sha256"`
	}
)

// ImportOptions says what else an import does.
type ImportOptions struct {
	// Enqueue asks, in the same transaction, for a dispatch of each card that is new or
	// changed; processes at work (Conveyor.Work) then need no stream.
	Enqueue bool
}

// Import stores a catalogue's printings and cards, in one transaction. It writes
// only rows that differ, so a second import changes nothing. A source without an index
// is taken for a folder, or a tree of listings, of card images.
func Import(ctx context.Context, database session.Config, location string) (done Imported, err error) {
	return ImportWith(ctx, database, location, ImportOptions{})
}

// ImportWith is Import with options.
func ImportWith(ctx context.Context, database session.Config, location string, opts ImportOptions) (done Imported, err error) {
	source, err := catalogue.ParseSource(location)
	if err != nil {
		return done, err
	}
	done = Imported{Source: source.String()}
	found, err := catalogue.Load(ctx, source)
	bare := errors.Is(err, catalogue.ErrNoIndex)
	if err != nil && !bare {
		return done, err
	}
	s, err := session.Open(ctx, database, "import")
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	if bare {
		err = importFolder(ctx, s, source, &done, opts)
		return done, err
	}
	done.Cards, done.Printings = len(found.Cards), len(found.Printings)
	err = s.InTx(ctx, func(tx *session.Tx) error { return store(ctx, tx, found, &done, opts) })
	return done, err
}

func sourceID(ctx context.Context, q session.Querier, source string) (int64, error) {
	kind := "http_index"
	if strings.HasPrefix(source, "file:") {
		kind = "local_file"
	}
	id, err := session.Value[int64](ctx, q, schema.ImportSource, source, source, source, kind)
	if err != nil {
		return 0, fmt.Errorf("import source: %w", err)
	}
	return id, nil
}

func store(ctx context.Context, tx *session.Tx, found *catalogue.Catalogue, done *Imported, opts ImportOptions) error {
	id, err := sourceID(ctx, tx, done.Source)
	if err != nil {
		return err
	}
	done.PrintingsChanged, err = chunked(ctx, tx, schema.ImportPrintings, printingRows(found.Printings))
	if err != nil {
		return fmt.Errorf("import printings: %w", err)
	}
	for part := range slices.Chunk(cardRows(found.Cards), importChunk) {
		changed, err := storeCards(ctx, tx, opts, schema.ImportCards, part, id)
		if err != nil {
			return fmt.Errorf("import cards: %w", err)
		}
		done.CardsChanged += changed
	}
	return nil
}

// storeCards runs a statement that returns the cards that it wrote.
func storeCards(ctx context.Context, tx *session.Tx, opts ImportOptions, statement string, args ...any) (int64, error) {
	written, err := session.Column[int64](ctx, tx, statement, args...)
	if err == nil && opts.Enqueue {
		_, err = jobs.Enqueue(ctx, tx.Raw(), jobs.CardCreate, written)
	}
	return int64(len(written)), err
}

func chunked[T any](ctx context.Context, tx *session.Tx, statement string, rows []T, args ...any) (changed int64, err error) {
	for chunk := range slices.Chunk(rows, importChunk) {
		n, err := tx.Exec(ctx, statement, append([]any{chunk}, args...)...)
		if err != nil {
			return changed, err
		}
		changed += n
	}
	return changed, nil
}

func printingRows(printings []catalogue.Printing) []printingRow {
	rows := make([]printingRow, 0, len(printings))
	for _, p := range printings {
		rows = append(rows, printingRow{
			Identifier: p.UUID, CanonicalID: p.OracleID, Name: p.Name, NormalName: deduce.NormalName(p.Name),
			SetCode: p.SetCode, CollectorNumber: p.CollectorNumber, Artist: p.Artist, BorderColor: p.Border,
			Frame: p.Frame, ReleasedAt: p.ReleasedAt, IllustrationID: p.IllustrationID,
		})
	}
	return rows
}

func cardRows(cards []catalogue.Card) []cardRow {
	rows := make([]cardRow, 0, len(cards))
	for _, c := range cards {
		rows = append(rows, cardRow{
			Identifier: c.Identifier, Name: c.Name, File: c.File, DPI: c.DPI, CardType: string(c.Type),
			ContentPHash: (*int64)(c.PHash), MD5: c.MD5, SHA256: c.SHA256,
		})
	}
	return rows
}
