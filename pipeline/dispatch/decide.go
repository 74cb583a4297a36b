package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"deadwire/pipeline/deduce"
	"deadwire/pipeline/ledger"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// evidenceUsed names the extractors that the join-key calculator reads.
var evidenceUsed = [...]string{"collector_code", "layout_class", "quality_signals"}

// decided is what Stage D made of a batch.
type decided struct {
	matches    int
	noMatches  int
	skips      int
	already    int
	propagated int
}

func (d decided) written() int { return d.matches + d.noMatches + d.propagated }

// partition is the coordinator's first query after the workers ran: which cards
// got their verdict in this run already, through another card with the same image.
func (d *Dispatcher) partition(ctx context.Context, b *batch) ([]int64, error) {
	resolved, err := session.Column[int64](ctx, d.session, schema.Partition, keys(b.cards), d.cfg.Run)
	if err != nil {
		return nil, fmt.Errorf("partition: %w", err)
	}
	return resolved, nil
}

// decide is Stage D over the part of the batch that has no verdict yet, and the
// transfer of verdicts to the other part. All writes are one transaction.
func (d *Dispatcher) decide(ctx context.Context, b *batch, resolved []int64) error {
	open := slices.DeleteFunc(keys(b.cards), func(card int64) bool { return slices.Contains(resolved, card) })
	votes, skips, err := d.joinKey(ctx, open)
	if err != nil {
		return err
	}
	err = b.slot.Check(ctx)
	if err != nil {
		return err
	}
	return d.session.InTx(ctx, func(tx *session.Tx) error {
		return d.write(ctx, tx, b, ballot{votes: votes, skips: skips, resolved: resolved})
	})
}

// evidenceRow is what the statement Evidence returns.
type evidenceRow struct {
	ID          int64
	Name        string
	HasEvidence bool
	SetCode     string
	Number      string
	Border      string
	Truncated   bool
}

func (d *Dispatcher) joinKey(ctx context.Context, cards []int64) ([]deduce.Vote, []skipped, error) {
	rows, err := session.Rows[evidenceRow](ctx, d.session, schema.Evidence, cards, d.cfg.Run, deduce.JoinKeyAgent)
	if err != nil {
		return nil, nil, fmt.Errorf("evidence: %w", err)
	}
	candidates, err := d.candidates(ctx, rows)
	if err != nil {
		return nil, nil, err
	}
	known, err := d.lexicon(ctx, rows)
	if err != nil {
		return nil, nil, err
	}
	var votes []deduce.Vote
	var skips []skipped
	for _, row := range rows {
		decision := deduce.JoinKey(deduce.Card(row), candidates[deduce.NormalName(row.Name)], slices.Contains(known, row.SetCode))
		if decision.Kind == deduce.Skip {
			skips = append(skips, skipped{card: row.ID, reason: decision.Reason, survivors: decision.Survivors})
			continue
		}
		votes = append(votes, deduce.Vote{Card: row.ID, Printing: decision.Printing, Confidence: decision.Confidence})
	}
	return votes, skips, nil
}

// candidates loads the printings that bear the batch's names, by normalised name.
func (d *Dispatcher) candidates(ctx context.Context, rows []evidenceRow) (map[string][]deduce.Printing, error) {
	type candidate struct {
		ID          int64
		Name        string
		SetCode     string
		Number      string
		BorderColor string
	}
	names := make([]string, 0, len(rows))
	for _, row := range rows {
		names = append(names, deduce.NormalName(row.Name))
	}
	found, err := session.Tuples[candidate](ctx, d.session, schema.Candidates, names)
	if err != nil {
		return nil, fmt.Errorf("candidates: %w", err)
	}
	byName := map[string][]deduce.Printing{}
	for _, c := range found {
		byName[c.Name] = append(byName[c.Name], deduce.Printing{ID: c.ID, SetCode: c.SetCode, Number: c.Number, Border: c.BorderColor})
	}
	return byName, nil
}

// lexicon says which of the set codes that were read exist.
func (d *Dispatcher) lexicon(ctx context.Context, rows []evidenceRow) ([]string, error) {
	codes := make([]string, 0, len(rows))
	for _, row := range rows {
		codes = append(codes, row.SetCode)
	}
	known, err := session.Column[string](ctx, d.session, schema.Lexicon, codes)
	if err != nil {
		return nil, fmt.Errorf("lexicon: %w", err)
	}
	return known, nil
}

// skipped is a named skip of Stage D.
type skipped struct {
	card      int64
	reason    string
	survivors []int64
}

// ballot is all that a batch has to write.
type ballot struct {
	votes    []deduce.Vote
	skips    []skipped
	resolved []int64
}

// write splits before it purges and purges exactly what it then inserts. The lock
// on the cards makes concurrent dispatches take turns, so row counts are certain.
func (d *Dispatcher) write(ctx context.Context, tx *session.Tx, b *batch, ballot ballot) error {
	err := d.lock(ctx, tx, b)
	if err != nil {
		return err
	}
	err = d.writeVotes(ctx, tx, b, ballot.votes)
	if err != nil {
		return err
	}
	err = d.writeSkips(ctx, tx, b, ballot.skips)
	if err != nil {
		return err
	}
	return d.drain(ctx, tx, b, ballot.resolved)
}

func (d *Dispatcher) lock(ctx context.Context, tx *session.Tx, b *batch) error {
	locked, err := session.Column[int64](ctx, tx, schema.VotesLock, keys(b.cards))
	if err != nil {
		return fmt.Errorf("votes-lock: %w", err)
	}
	if len(locked) != len(b.cards) {
		return fmt.Errorf("votes-lock: %w", &session.RowCountError{Want: int64(len(b.cards)), Got: int64(len(locked))})
	}
	return nil
}

func (d *Dispatcher) writeVotes(ctx context.Context, tx *session.Tx, b *batch, proposed []deduce.Vote) error {
	held, err := d.held(ctx, tx, proposed)
	if err != nil {
		return err
	}
	write, already := deduce.Split(proposed, held)
	b.decision.already = already
	err = d.replace(ctx, tx, write, held)
	if err != nil {
		return err
	}
	for _, vote := range write {
		if vote.Printing == 0 {
			b.decision.noMatches++
		} else {
			b.decision.matches++
		}
	}
	return nil
}

func (d *Dispatcher) held(ctx context.Context, tx *session.Tx, proposed []deduce.Vote) ([]deduce.Vote, error) {
	type row struct {
		Card     int64
		Printing int64
		NoMatch  bool
	}
	rows, err := session.Tuples[row](ctx, tx, schema.VotesCurrent, deduce.Cards(proposed), deduce.JoinKeyFamily)
	if err != nil {
		return nil, fmt.Errorf("votes-current: %w", err)
	}
	held := make([]deduce.Vote, 0, len(rows))
	for _, r := range rows {
		held = append(held, deduce.Vote{Card: r.Card, Printing: r.Printing})
	}
	return held, nil
}

// replace archives what the family held on the cards to be written, then inserts.
func (d *Dispatcher) replace(ctx context.Context, tx *session.Tx, write, held []deduce.Vote) error {
	if len(write) == 0 {
		return nil
	}
	cards := deduce.Cards(write)
	superseded := 0
	for _, vote := range held {
		if slices.Contains(cards, vote.Card) {
			superseded++
		}
	}
	err := session.Expect(int64(superseded))(tx.Exec(ctx, schema.VotesPurge, cards, deduce.JoinKeyFamily, d.cfg.Run))
	if err != nil {
		return fmt.Errorf("votes-purge: %w", err)
	}
	ids, printings, confidences := columns(write)
	err = session.Expect(int64(len(write)))(tx.Exec(ctx, schema.Votes,
		deduce.JoinKeyAgent, deduce.JoinKeySource, d.cfg.Run, evidenceUsed[:], ids, printings, confidences))
	if err != nil {
		return fmt.Errorf("votes: %w", err)
	}
	return nil
}

func columns(votes []deduce.Vote) (cards, printings []int64, confidences []float64) {
	for _, vote := range votes {
		cards = append(cards, vote.Card)
		printings = append(printings, vote.Printing)
		confidences = append(confidences, vote.Confidence)
	}
	return cards, printings, confidences
}

// writeSkips writes Stage C's and Stage D's named skips.
func (d *Dispatcher) writeSkips(ctx context.Context, tx *session.Tx, b *batch, skips []skipped) error {
	b.decision.skips = len(skips)
	var stageC []skipped
	for _, skip := range b.extraction.Skips {
		stageC = append(stageC, skipped{card: skip.Card, reason: skip.Reason})
	}
	for _, card := range b.parked {
		stageC = append(stageC, skipped{card: card, reason: PoisonCard})
	}
	err := d.park(ctx, tx, b.parked)
	if err != nil {
		return err
	}
	err = d.logSkips(ctx, tx, Agent, stageC)
	if err != nil {
		return err
	}
	return d.logSkips(ctx, tx, deduce.JoinKeyAgent, skips)
}

// park gives up cards. Another dispatch may have done so a moment ago.
func (d *Dispatcher) park(ctx context.Context, tx *session.Tx, cards []int64) error {
	if len(cards) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, schema.Park, cards)
	if err != nil {
		return fmt.Errorf("park: %w", err)
	}
	return nil
}

func (d *Dispatcher) logSkips(ctx context.Context, tx *session.Tx, agent string, skips []skipped) error {
	if len(skips) == 0 {
		return nil
	}
	var cards []int64
	var reasons, survivors []string
	for _, skip := range skips {
		cards = append(cards, skip.card)
		reasons = append(reasons, skip.reason)
		survivors = append(survivors, list(skip.survivors))
	}
	err := session.Expect(int64(len(skips)))(tx.Exec(ctx, schema.VotesSkips, agent, d.cfg.Run, cards, reasons, survivors))
	if err != nil {
		return fmt.Errorf("votes-skips: %w", err)
	}
	return nil
}

// list writes keys as PostgreSQL's string_to_array reads them.
func list(keys []int64) string {
	words := make([]string, 0, len(keys))
	for _, key := range keys {
		words = append(words, strconv.FormatInt(key, 10))
	}
	return strings.Join(words, ",")
}

func (d *Dispatcher) drain(ctx context.Context, tx *session.Tx, b *batch, resolved []int64) error {
	if len(resolved) == 0 {
		return nil
	}
	copied, err := tx.Exec(ctx, schema.VotesDrain, resolved, d.cfg.Run)
	if err != nil {
		return fmt.Errorf("votes-drain: %w", err)
	}
	b.decision.propagated = int(copied)
	return nil
}

func keys(cards []Card) []int64 {
	ids := make([]int64, 0, len(cards))
	for _, card := range cards {
		ids = append(ids, card.ID)
	}
	return ids
}

// counters is what a COMPLETED row keeps.
func (b *batch) counters() ledger.Counters {
	return ledger.Counters{
		"stage_c_completed": b.extraction.Completed, "stage_c_transferred": 0,
		"stage_c_fetch_failures": b.extraction.FetchFailures, "stage_c_fetch_throttled": b.extraction.Throttled,
		"stage_c_damaged": b.extraction.Damaged, "stage_c_parked": len(b.parked), "lockout": b.extraction.Lockout,
		"join_key_votes": b.decision.matches, "join_key_no_matches": b.decision.noMatches,
		"join_key_skips": b.decision.skips, "already_voted": b.decision.already,
		"verdict_transfer_votes": b.decision.propagated,
	}
}
