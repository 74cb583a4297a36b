package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"deadwire/harness/pg"
	"deadwire/pipeline"
	"deadwire/pipeline/deduce"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

const (
	scaleRounds = 41               // of each statement; the fastest counts
	ratioMost   = 2.0              // of a statement's time at most cards to that at least
	noise       = 0.5              // milliseconds by which a statement's two times may differ
	fillMax     = 30 * time.Minute // to make the rows
)

// probed is a statement of the dispatch path as a batch sends it.
type probed struct {
	name, sql string
	args      []any
}

func scaleCommand() *cobra.Command {
	var least, most int
	var explain bool
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Compare what a batch's statements take with few cards and with many",
		Long: `Fills one database with few cards and one with many, all with evidence, votes and scan logs on the first half,
and times the statements of the dispatch path in both, for a batch in the middle. What a batch costs must not
depend on the catalogue.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return scales(cmd.Context(), cmd.OutOrStdout(), []int{least, most}, explain)
		},
	}
	cmd.Flags().IntVar(&least, "least", 1000, "cards of the small catalogue")
	cmd.Flags().IntVar(&most, "most", 1_000_000, "cards of the large catalogue")
	cmd.Flags().BoolVar(&explain, "explain", false, "show each plan in the large catalogue, too")
	return cmd
}

func scales(ctx context.Context, out io.Writer, sizes []int, explain bool) (err error) {
	b := &Bench{Progress: io.Discard}
	if err := b.begin(ctx); err != nil {
		return err
	}
	defer func() { err = joinStop(err, b.stop(ctx)) }()
	server, _, err := b.postgres(ctx)
	if err != nil {
		return err
	}
	var catalogues []catalogueOf
	for _, cards := range sizes {
		s, err := filled(ctx, server, cards)
		if err != nil {
			return fmt.Errorf("fill with %d cards: %w", cards, err)
		}
		b.onStop(s.Close)
		catalogues = append(catalogues, catalogueOf{cards, s.Raw()})
	}
	if explain {
		err = catalogues[1].explained(ctx, out)
	}
	if err != nil {
		return err
	}
	return compared(ctx, out, catalogues[0], catalogues[1])
}

// catalogueOf is a database with so many cards.
type catalogueOf struct {
	cards int
	conn  *pgx.Conn
}

// compared times each statement here and there in turns, and refuses what grew. The
// fastest round counts: whatever else the machine does can only add to it.
func compared(ctx context.Context, out io.Writer, few, many catalogueOf) error {
	fmt.Fprintf(out, "%-14s %10d %10d %7s  (cards; fastest ms of a batch of %d)\n", "statement", few.cards, many.cards, "ratio", batchSize)
	var grown []string
	for i, there := range statements(many.cards) {
		here := statements(few.cards)[i]
		least, most := math.Inf(1), math.Inf(1)
		for range scaleRounds {
			fast, err := few.took(ctx, here)
			if err != nil {
				return err
			}
			slow, err := many.took(ctx, there)
			if err != nil {
				return err
			}
			least, most = min(least, fast), min(most, slow)
		}
		fmt.Fprintf(out, "%-14s %10.3f %10.3f %7.2f\n", here.name, least, most, most/least)
		if most > ratioMost*least && most-least > noise {
			grown = append(grown, here.name)
		}
	}
	if len(grown) > 0 {
		return fmt.Errorf("scale: more cards make these dearer: %s", strings.Join(grown, ", "))
	}
	return nil
}

// statements are those of one batch in the middle of a catalogue, in their order.
func statements(cards int) []probed {
	middle := int64(cards / 2) // below it, cards have evidence and votes
	var batch []int64
	var names, fronts []string
	for id := middle - batchSize/2; len(batch) < batchSize; id++ {
		batch, names, fronts = append(batch, id), append(names, fmt.Sprintf("card%d", id)), append(fronts, "")
	}
	versions, families := pipeline.Manifest(), []string{}
	for _, agent := range deduce.Agents() {
		families = append(families, agent.Family)
	}
	return []probed{
		{"select", schema.Select, []any{middle, 2 * batchSize, versions, deduce.JoinKeyAgent, 3}},
		{"select-cards", schema.SelectCards, []any{batch, batchSize, versions, deduce.JoinKeyAgent, 3}},
		{"transfer", schema.Transfer, []any{batch, versions, "scale", time.Time{}}},
		{"partition", schema.Partition, []any{batch, "run"}},
		{"evidence", schema.Evidence, []any{batch, "scale", deduce.JoinKeyAgent}},
		{"candidates", schema.Candidates, []any{names, fronts}},
		{"lexicon", schema.Lexicon, []any{[]string{"S1", "s1"}}},
		{"groups", schema.Groups, []any{batch, false}},
		{"groups-all", schema.Groups, []any{batch, true}},
		{"votes-current", schema.VotesCurrent, []any{batch, families}},
	}
}

// fill makes the rows. Of each thousand cards one has a twin by its bytes.
func fill(cards int) []probed {
	return []probed{
		{"source", `insert into source (key, name, identifier, source_type) values ('s', 's', 's', 'local_file')`, nil},
		{"printings", `insert into printing (identifier, canonical_id, name, normal_name, set_code, collector_number)
			select gen_random_uuid(), gen_random_uuid(), 'Card ' || i, 'card' || i, 'S' || i % 400, i from generate_series(1, $1::int) i`, []any{cards}},
		{"cards", `insert into card (identifier, source_id, name, file, content_phash, md5_checksum)
			select 'c' || i, 1, 'Card ' || i, i || '.png', hashint8extended(i, 1), md5((case when i % 1000 = 7 then i - 1 else i end)::text)
			from generate_series(1, $1::int) i`, []any{cards}},
		{"evidence", `insert into image_evidence (card_id, content_hash, extractor_versions, run_id, fetch_ok, artbox_phash, md5_checksum,
				collector_set_code, collector_number)
			select id, content_phash, $2, 'run', true, hashint8extended(id, 2), md5_checksum, 'S' || id % 400, id
			from card where id <= $1::int / 2`, []any{cards, pipeline.Manifest()}},
		{"votes", `insert into card_printing_tag (card_id, printing_id, anonymous_id, source, confidence, run_id)
			select id, id, $2, 'ocr', 0.85, 'run' from card where id <= $1::int / 2`, []any{cards, deduce.JoinKeyAgent}},
		{"scan log", `insert into card_scan_log (card_id, anonymous_id, run_id, skip_reason)
			select id, 'stage-d-fallback-v1', 'run', 'ambiguous' from card where id <= $1::int / 2`, []any{cards}},
	}
}

// filled makes a database of its own on the server and returns a session in it.
func filled(ctx context.Context, server pg.Server, cards int) (*session.Session, error) {
	name := fmt.Sprintf("scale%d", cards)
	conn, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "create database "+name)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return nil, err
	}
	cfg := session.Config{URL: server.URL(name), Timeout: fillMax}
	if _, _, err := pipeline.Migrate(ctx, cfg); err != nil {
		return nil, err
	}
	s, err := session.Open(ctx, cfg, "scale")
	if err != nil {
		return nil, err
	}
	for _, step := range fill(cards) {
		if _, err := s.Exec(ctx, step.sql, step.args...); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", step.name, err), s.Close(ctx))
		}
	}
	if _, err := s.Exec(ctx, "vacuum analyze"); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

// took runs a statement once, in milliseconds.
func (c catalogueOf) took(ctx context.Context, st probed) (float64, error) {
	began := time.Now()
	err := c.run(ctx, st, io.Discard)
	return millis(time.Since(began)), err
}

func (c catalogueOf) explained(ctx context.Context, out io.Writer) error {
	for _, st := range statements(c.cards) {
		fmt.Fprintf(out, "%s:\n", st.name)
		st.sql = "explain (analyze, costs off, timing off, summary off) " + st.sql
		if err := c.run(ctx, st, out); err != nil {
			return err
		}
	}
	return nil
}

// run runs one statement, prints each row's first column, and keeps nothing.
func (c catalogueOf) run(ctx context.Context, st probed, out io.Writer) error {
	tx, err := c.conn.Begin(ctx)
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, st.sql, st.args...)
	if err == nil {
		for rows.Next() {
			fmt.Fprintf(out, "  %s\n", rows.RawValues()[0])
		}
		err = rows.Err()
	}
	if err := errors.Join(err, tx.Rollback(ctx)); err != nil {
		return fmt.Errorf("%s: %w", st.name, err)
	}
	return nil
}
