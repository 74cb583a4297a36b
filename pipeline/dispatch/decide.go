package dispatch

import (
	"context"
	"fmt"
	"slices"

	"deadwire/pipeline/consensus"
	"deadwire/pipeline/decide"
	"deadwire/pipeline/ledger"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

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
	all := keys(b.cards)
	open := slices.DeleteFunc(slices.Clone(all), func(card int64) bool { return slices.Contains(resolved, card) })
	proposal, err := decide.Read(ctx, d.session, d.cfg.Run, all, open)
	if err != nil {
		return err
	}
	groups, err := consensus.Groups(ctx, d.session, all, false)
	if err != nil {
		return err
	}
	err = b.slot.Check(ctx)
	if err != nil {
		return err
	}
	return d.session.InTx(ctx, func(tx *session.Tx) (err error) {
		b.decision, err = proposal.Write(ctx, tx, decide.Batch{
			Run: d.cfg.Run, Cards: all, Resolved: resolved, Skips: b.stageCSkips(), Parked: b.parked, Groups: groups,
		})
		return err
	})
}

// stageCSkips are the cards that Stage C passed by, by name.
func (b *batch) stageCSkips() []decide.Skip {
	var skips []decide.Skip
	for _, skip := range b.extraction.Skips {
		skips = append(skips, decide.Skip{Agent: Agent, Card: skip.Card, Reason: skip.Reason})
	}
	for _, card := range b.parked {
		skips = append(skips, decide.Skip{Agent: Agent, Card: card, Reason: PoisonCard})
	}
	return skips
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
	counters := ledger.Counters{
		"stage_c_completed": b.extraction.Completed, "stage_c_transferred": b.extraction.Transferred,
		"stage_c_fetch_failures": b.extraction.FetchFailures, "stage_c_fetch_throttled": b.extraction.Throttled,
		"stage_c_damaged": b.extraction.Damaged, "stage_c_parked": len(b.parked), "lockout": b.extraction.Lockout,
		"printing_votes": b.decision.Matches, "no_match_votes": b.decision.NoMatches,
		"join_key_skips": b.decision.Skips, "already_voted": b.decision.Already,
		"verdict_transfer_votes": b.decision.Propagated, "settled": b.decision.Settled,
	}
	for agent, votes := range b.decision.ByAgent {
		counters["votes:"+agent] = votes
	}
	return counters
}
