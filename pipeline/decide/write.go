package decide

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"deadwire/pipeline/consensus"
	"deadwire/pipeline/deduce"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// Skip is a named skip of any stage.
type Skip struct {
	Agent     string
	Card      int64
	Reason    string
	Survivors []int64
}

// Batch is what a transaction is about, beside the proposal.
type Batch struct {
	Run string
	// Cards are all of the batch.
	Cards []int64
	// Resolved are those whose verdict is copied from a twin of this run.
	Resolved []int64
	// Skips are other stages' to be kept in the same transaction.
	Skips []Skip
	// Parked are cards to give up.
	Parked []int64
	// Groups are the cards' identity groups in which a person voted.
	Groups []consensus.Group
}

// Counts is what was written.
type Counts struct {
	Matches, NoMatches int
	// Already are votes that were held just so.
	Already int
	// Skips are cards that the join-key calculator skipped.
	Skips int
	// Propagated are copied votes.
	Propagated int
	// Settled are cards whose status changed.
	Settled int
	// ByAgent are written votes by agent, of printings, illustrations and attributes.
	ByAgent map[string]int
}

// Written is the number of printing votes.
func (c Counts) Written() int { return c.Matches + c.NoMatches + c.Propagated }

// Write splits before it purges and purges exactly what it then inserts. The locks on
// the cards make concurrent transactions take turns, so row counts are certain; the
// number of statements does not depend on the number of cards.
func (p Proposal) Write(ctx context.Context, tx *session.Tx, b Batch) (Counts, error) {
	w := &writing{Batch: b, counts: Counts{ByAgent: map[string]int{}}}
	err := w.lock(ctx, tx)
	if err != nil {
		return w.counts, err
	}
	write, err := w.split(ctx, tx, p.said)
	if err != nil {
		return w.counts, err
	}
	w.vote(write)
	w.depict(p.said)
	w.tag(p.tags)
	w.skip(p.said)
	if len(b.Parked) > 0 { // another dispatch may have done so a moment ago
		w.step(schema.Park, -1, b.Parked)
	}
	if len(w.steps) > 0 {
		err = tx.Batch(ctx, w.steps...)
		if err != nil {
			return w.counts, err
		}
	}
	return w.counts, w.finish(ctx, tx)
}

// writing is one transaction while it is put together.
type writing struct {
	Batch
	steps  []session.Step
	held   []deduce.Vote
	counts Counts
}

func (w *writing) step(sql string, want int, args ...any) {
	w.steps = append(w.steps, session.Step{SQL: sql, Args: args, Want: int64(want)})
}

func (w *writing) lock(ctx context.Context, tx *session.Tx) error {
	locked, err := consensus.Lock(ctx, tx, w.Cards, w.Groups)
	if err != nil {
		return err
	}
	found := 0
	for _, card := range w.Cards {
		if slices.Contains(locked, card) {
			found++
		}
	}
	if found != len(w.Cards) {
		return fmt.Errorf("votes-lock: %w", &session.RowCountError{Want: int64(len(w.Cards)), Got: int64(found)})
	}
	return nil
}

// split returns what is to be written: what the families do not hold just so.
func (w *writing) split(ctx context.Context, tx *session.Tx, said []deduce.Said) ([]deduce.Said, error) {
	var proposed []deduce.Vote
	votes := slices.DeleteFunc(slices.Clone(said), func(s deduce.Said) bool {
		return s.Kind != deduce.Match && s.Kind != deduce.NoMatch
	})
	for _, s := range votes {
		proposed = append(proposed, deduce.Vote{Card: s.Card, Family: s.Agent.Family, Printing: s.Printing})
	}
	if len(proposed) == 0 {
		return nil, nil
	}
	held, err := session.Tuples[deduce.Vote](ctx, tx, schema.VotesCurrent, w.Cards, families())
	if err != nil {
		return nil, fmt.Errorf("votes-current: %w", err)
	}
	write, already := deduce.Split(proposed, held)
	w.counts.Already, w.held = already, deduce.Superseded(write, held)
	return slices.DeleteFunc(votes, func(s deduce.Said) bool {
		return !slices.Contains(write, deduce.Vote{Card: s.Card, Family: s.Agent.Family, Printing: s.Printing})
	}), nil
}

func families() []string {
	var names []string
	for _, agent := range deduce.Agents() {
		names = append(names, agent.Family)
	}
	return names
}

// vote archives what the families held where they say something new, then inserts.
func (w *writing) vote(write []deduce.Said) {
	if len(write) == 0 {
		return
	}
	c := columns(write)
	for _, s := range write {
		if s.Kind == deduce.NoMatch {
			w.counts.NoMatches++
		} else {
			w.counts.Matches++
		}
		w.counts.ByAgent[s.Agent.Name]++
	}
	if len(w.held) > 0 {
		w.step(schema.VotesPurge, len(w.held), c.cards, c.families, w.Run)
	}
	w.step(schema.Votes, len(write), w.Run, c.cards, c.printings, c.agents, c.sources, c.confidences, c.used)
}

// columns are votes as the statements take them.
type voteColumns struct {
	cards, printings                               []int64
	agents, families, sources, used, illustrations []string
	confidences                                    []float64
}

func columns(said []deduce.Said) (c voteColumns) {
	for _, s := range said {
		c.cards, c.printings = append(c.cards, s.Card), append(c.printings, s.Printing)
		c.agents, c.families = append(c.agents, s.Agent.Name), append(c.families, s.Agent.Family)
		c.sources, c.used = append(c.sources, s.Agent.Source), append(c.used, strings.Join(s.Agent.Evidence, ","))
		c.illustrations, c.confidences = append(c.illustrations, s.Illustration), append(c.confidences, s.Confidence)
	}
	return c
}

func (w *writing) depict(said []deduce.Said) {
	shown := slices.DeleteFunc(slices.Clone(said), func(s deduce.Said) bool { return s.Kind != deduce.Depicts })
	if len(shown) == 0 {
		return
	}
	c := columns(shown)
	w.step(schema.VotesIllustrations, -1, w.Run, c.cards, c.illustrations, c.agents, c.sources, c.confidences, c.used)
	var cards []int64
	var rejected, agents []string
	for _, s := range shown {
		w.counts.ByAgent[s.Agent.Name]++
		for _, id := range s.Rejected {
			cards, rejected, agents = append(cards, s.Card), append(rejected, id), append(agents, s.Agent.Name)
		}
	}
	if len(cards) > 0 {
		w.step(schema.VotesRejections, -1, w.Run, cards, rejected, agents)
	}
}

func (w *writing) tag(tags []deduce.Tag) {
	if len(tags) == 0 {
		return
	}
	var cards []int64
	var names, agents, sources, used []string
	var polarities []int16
	var confidences []float64
	for _, t := range tags {
		w.counts.ByAgent[t.Agent.Name]++
		cards, names, polarities = append(cards, t.Card), append(names, t.Tag), append(polarities, int16(t.Polarity))
		agents, sources = append(agents, t.Agent.Name), append(sources, t.Agent.Source)
		used, confidences = append(used, strings.Join(t.Agent.Evidence, ",")), append(confidences, t.Confidence)
	}
	w.step(schema.VotesTags, -1, w.Run, cards, names, polarities, agents, sources, confidences, used)
}

// skip keeps the named skips of all stages, in one statement.
func (w *writing) skip(said []deduce.Said) {
	skips := slices.Clone(w.Skips)
	for _, s := range said {
		if s.Kind != deduce.Skip {
			continue
		}
		skips = append(skips, Skip{s.Agent.Name, s.Card, s.Reason, s.Survivors})
		if s.Agent.Name == deduce.JoinKeyAgent {
			w.counts.Skips++
		}
	}
	for _, card := range w.Resolved {
		skips = append(skips, Skip{Agent: deduce.JoinKeyAgent, Card: card, Reason: deduce.VerdictInherited})
	}
	if len(skips) == 0 {
		return
	}
	var cards []int64
	var agents, reasons, survivors []string
	for _, s := range skips {
		cards, agents = append(cards, s.Card), append(agents, s.Agent)
		reasons, survivors = append(reasons, s.Reason), append(survivors, list(s.Survivors))
	}
	w.step(schema.VotesSkips, len(skips), w.Run, cards, agents, reasons, survivors)
}

// list writes keys as PostgreSQL's string_to_array reads them.
func list(keys []int64) string {
	words := make([]string, 0, len(keys))
	for _, key := range keys {
		words = append(words, strconv.FormatInt(key, 10))
	}
	return strings.Join(words, ",")
}

// finish copies the twins' verdicts and settles the groups in which a person voted.
func (w *writing) finish(ctx context.Context, tx *session.Tx) error {
	if len(w.Resolved) > 0 {
		copied, err := tx.Exec(ctx, schema.VotesDrain, w.Resolved, w.Run)
		if err != nil {
			return fmt.Errorf("votes-drain: %w", err)
		}
		w.counts.Propagated = int(copied)
	}
	settled, err := consensus.Settle(ctx, tx, w.Groups)
	w.counts.Settled = len(settled)
	return err
}
