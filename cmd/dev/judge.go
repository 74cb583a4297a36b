package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"deadwire/harness/pg"
	"deadwire/harness/pg/local"
	"deadwire/pipeline"
	"deadwire/pipeline/cardgen"
	"deadwire/pipeline/catalogue"
	"deadwire/pipeline/command"
	"deadwire/pipeline/decide"
	"deadwire/pipeline/session"
)

// What a run must reach.
const (
	precisionLeast = 0.99
	recallLeast    = 0.90
	votersMost     = 20 // groups that a person votes in
	batchSize      = 25
)

// conveyorArgs lead from this program to conveyor's worker mode.
var conveyorArgs = []string{"conveyor", "worker"}

// conveyorCommand is conveyor itself, so that its workers can be started from here.
func conveyorCommand() *cobra.Command {
	cmd := command.New(command.Options{Name: "conveyor", WorkerArgs: conveyorArgs})
	cmd.Hidden = true
	return cmd
}

type judge struct {
	cards, workers, width, height int
	seed                          uint64
	plain                         bool // every card ordinary and whole, so that each costs the same

	database session.Config
	dir      string
	conn     *pgx.Conn
	facts    map[string]cardgen.Fact
}

func judgeCommand() *cobra.Command {
	var j judge
	cmd := &cobra.Command{
		Use:   "judge",
		Short: "Run conveyor over a generated catalogue and hold its votes against the truth",
		Long: `Generates cards, works through them with OCR, and compares what each card ended as with what was printed
on it: votes must be right (precision), cards that can be read must have one (recall), every card must have
ended in a state that its truth explains, machines must have settled none, and one person's vote that agrees
must settle its whole identity group.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return j.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.IntVar(&j.cards, "cards", 200, "cards to generate")
	flags.Uint64Var(&j.seed, "seed", 1, "seed of the catalogue")
	flags.IntVar(&j.workers, "workers", 2, "compute processes")
	flags.IntVar(&j.width, "width", 744, "pixels of a card's width")
	flags.IntVar(&j.height, "height", 1039, "pixels of a card's height; from 600 on its text can be read")
	return cmd
}

func (j *judge) run(ctx context.Context, out io.Writer) (err error) {
	b := &Bench{Progress: io.Discard}
	if err := b.begin(ctx); err != nil {
		return err
	}
	defer func() { err = joinStop(err, b.stop(ctx)) }()
	if err := j.prepare(ctx, b); err != nil {
		return err
	}
	began := time.Now()
	run, err := j.stream(ctx, j.workers)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d cards in %.1f s, %d workers\n", j.cards, time.Since(began).Seconds(), j.workers)
	ends, err := j.ends(ctx)
	if err != nil {
		return err
	}
	got := tally(ends, j.facts)
	got.print(out)
	return errors.Join(got.verdict(), j.settle(ctx, out, ends), j.check(ctx, out), j.propagate(ctx, out, run))
}

// prepare starts a server of its own, generates the catalogue and imports it.
func (j *judge) prepare(ctx context.Context, b *Bench) error {
	server, dir, err := b.postgres(ctx)
	if err != nil {
		return err
	}
	j.database, j.dir = session.Config{URL: server.URL("postgres"), Timeout: time.Minute}, filepath.Join(dir, "catalogue")
	j.conn, err = pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return err
	}
	b.onStop(j.conn.Close)
	spec := cardgen.Default(j.cards, j.seed)
	if j.plain {
		spec = cardgen.Spec{Cards: j.cards, Seed: j.seed}
	}
	spec.Width, spec.Height = j.width, j.height
	if _, err := cardgen.Write(ctx, j.dir, spec); err != nil {
		return err
	}
	if _, _, err := pipeline.Migrate(ctx, j.database); err != nil {
		return err
	}
	if _, err := pipeline.Import(ctx, j.database, j.dir); err != nil {
		return err
	}
	return j.readFacts()
}

// postgres starts a server for one measurement; the folder is for files beside it.
func (b *Bench) postgres(ctx context.Context) (pg.Server, string, error) {
	dir, err := b.tempDir("conveyor")
	if err != nil {
		return nil, "", err
	}
	started, err := local.New(local.Options{}).Start(ctx, pg.Config{Dir: dir, Owner: b.lease})
	if err != nil {
		return nil, "", err
	}
	b.onStop(started.Stop)
	files := filepath.Join(dir, "files")
	return started, files, os.MkdirAll(files, 0o755)
}

func (j *judge) readFacts() error {
	raw, err := os.ReadFile(filepath.Join(j.dir, catalogue.FactsFile))
	if err != nil {
		return err
	}
	var facts []cardgen.Fact
	if err := json.Unmarshal(raw, &facts); err != nil {
		return err
	}
	j.facts = map[string]cardgen.Fact{}
	for _, fact := range facts {
		j.facts[fact.Identifier] = fact
	}
	return nil
}

func (j *judge) stream(ctx context.Context, workers int) (run string, err error) {
	conveyor, err := pipeline.New(pipeline.Config{
		Database: j.database, Source: j.dir, Workers: workers, Batch: batchSize, WorkerArgs: conveyorArgs,
	})
	if err != nil {
		return "", err
	}
	summary, err := conveyor.Stream(ctx)
	if err != nil {
		return "", err
	}
	if summary.Status != "complete" {
		return "", fmt.Errorf("the stream ended as %s", summary.Status)
	}
	return summary.Run, nil
}

// end is what a card ended as.
type end struct {
	Identifier, Kind, Status string
	Hashed, Readable         bool
	Top                      string // UUID of the printing with most votes; "no-match"; "" for none or a tie
	Agents                   int64  // that voted for it
	Scans                    int64
}

// endsSQL counts a card's own votes by outcome; each agent has one.
const endsSQL = `select c.identifier, c.card_type, c.printing_tag_status, c.content_phash is not null,
  coalesce((select e.fetch_ok from image_evidence e where e.card_id = c.id limit 1), false),
  coalesce(t.outcome, ''), coalesce(t.n, 0), (select count(*) from card_scan_log l where l.card_id = c.id)
from card c left join lateral (
  select outcome, n from (
    select coalesce(p.identifier::text, 'no-match') as outcome, count(*) as n, max(v.confidence) as c,
      rank() over (order by count(*) desc, max(v.confidence) desc) as place
    from card_printing_tag v left join printing p on p.id = v.printing_id where v.card_id = c.id group by 1) o
  where place = 1 limit 1) t on true
order by c.id`

func (j *judge) ends(ctx context.Context) ([]end, error) {
	rows, err := j.conn.Query(ctx, endsSQL)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[end])
}

// marks counts cards.
type marks struct {
	voted, right         int // with a top vote; that is the truth
	readable, identified int // undamaged and votable; of those, with the right top vote
	settled              int
	wrong, unexplained   []string
}

func tally(ends []end, facts map[string]cardgen.Fact) marks {
	var s marks
	for _, e := range ends {
		fact := facts[e.Identifier]
		if e.Status != "unresolved" {
			s.settled++
		}
		right := e.Top == fact.Printing || e.Top == "no-match" && fact.Misprint != ""
		if e.Top != "" {
			s.voted++
			if right {
				s.right++
			} else {
				s.wrong = append(s.wrong, fmt.Sprintf("%s (%s %s): %s instead of %s", e.Identifier, fact.Role, fact.Misprint, e.Top, fact.Printing))
			}
		}
		damaged := strings.HasPrefix(fact.Role, "damaged")
		if !damaged && e.Kind == "CARD" {
			s.readable++
			if e.Top != "" && right {
				s.identified++
			}
		}
		if why := unexplained(e, damaged); why != "" {
			s.unexplained = append(s.unexplained, e.Identifier+": "+why)
		}
	}
	return s
}

// unexplained says what about a card's end its truth does not explain.
func unexplained(e end, damaged bool) string {
	switch {
	case damaged && e.Top != "":
		return "damaged, and has a vote"
	case damaged && e.Hashed && e.Scans == 0:
		return "damaged after it was listed, and nothing says so"
	case !damaged && !e.Readable:
		return "not damaged, and was not read"
	case !damaged && e.Kind == "CARD" && e.Top == "" && e.Scans == 0:
		return "has neither a vote nor a named skip"
	case e.Kind != "CARD" && e.Top != "":
		return "no card's front, and has a vote"
	}
	return ""
}

func (s marks) precision() float64 { return float64(s.right) / float64(max(1, s.voted)) }
func (s marks) recall() float64    { return float64(s.identified) / float64(max(1, s.readable)) }

func (s marks) print(out io.Writer) {
	fmt.Fprintf(out, "precision %.4f (%d of %d cards with a vote), least %.2f\n", s.precision(), s.right, s.voted, precisionLeast)
	fmt.Fprintf(out, "recall    %.4f (%d of %d cards that can be read), least %.2f\n", s.recall(), s.identified, s.readable, recallLeast)
	fmt.Fprintf(out, "settled by machines: %d; ends not explained: %d\n", s.settled, len(s.unexplained))
	const shown = 12
	for _, line := range slices.Concat(s.wrong[:min(shown, len(s.wrong))], s.unexplained[:min(shown, len(s.unexplained))]) {
		fmt.Fprintln(out, "  "+line)
	}
}

func (s marks) verdict() error {
	switch {
	case s.precision() < precisionLeast:
		return errors.New("judge: precision is too low")
	case s.recall() < recallLeast:
		return errors.New("judge: recall is too low")
	case s.settled > 0:
		return errors.New("judge: machines settled cards")
	case len(s.unexplained) > 0:
		return errors.New("judge: cards ended in a state that their truth does not explain")
	}
	return nil
}

// settle lets a person agree with cards on which two agents agree: each must settle
// its whole group, as what every member of it is.
func (j *judge) settle(ctx context.Context, out io.Writer, ends []end) error {
	votes, cards := 0, 0
	for _, e := range ends {
		if e.Agents < 2 || e.Top != j.facts[e.Identifier].Printing || votes == votersMost {
			continue
		}
		verdict, err := pipeline.Vote(ctx, j.database, decide.Ballot{Card: e.Identifier, Printing: e.Top, Person: "judge"})
		if err != nil {
			return err
		}
		if verdict.Status != "resolved" {
			return fmt.Errorf("judge: one person and two agents left %s %s", e.Identifier, verdict.Status)
		}
		votes, cards = votes+1, cards+verdict.Changed
	}
	rows, err := j.conn.Query(ctx, `select c.identifier, p.identifier::text from card c join printing p on p.id = c.inferred_canonical_card_id`)
	if err != nil {
		return err
	}
	var card, printing string
	_, err = pgx.ForEachRow(rows, []any{&card, &printing}, func() error {
		if j.facts[card].Printing != printing {
			return fmt.Errorf("judge: %s was settled as %s, and is %s", card, printing, j.facts[card].Printing)
		}
		return nil
	})
	fmt.Fprintf(out, "a person's %d votes settled %d cards\n", votes, cards)
	return err
}

// propagate asks whether verdicts reach equal images, and whether a second time
// changes anything.
func (j *judge) propagate(ctx context.Context, out io.Writer, run string) error {
	first, err := pipeline.Propagate(ctx, j.database, run)
	if err != nil {
		return err
	}
	again, err := pipeline.Propagate(ctx, j.database, run)
	fmt.Fprintf(out, "propagated %d votes, %d conflicts, %d violations\n", first.Votes, first.Conflicts, first.Violations)
	if err == nil && (again.Votes > 0 || first.Violations > 0) {
		err = fmt.Errorf("judge: %d votes were propagated again, and machines alone would settle %d cards", again.Votes, first.Violations)
	}
	return err
}

func (j *judge) check(ctx context.Context, out io.Writer) error {
	findings, err := pipeline.Check(ctx, j.database, false)
	if err != nil {
		return err
	}
	for _, f := range findings {
		if !f.OK {
			return fmt.Errorf("judge: %s is broken: %v", f.Invariant, f.Breaches)
		}
	}
	fmt.Fprintf(out, "%d promises hold\n", len(findings))
	return nil
}
