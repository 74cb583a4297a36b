package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"deadwire/pipeline/deduce"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
	"deadwire/pipeline/sweep"
)

// chunkMax bounds one selection query, in cards.
const chunkMax = 250

// selectedRow is what the statements Select and SelectCards return.
type selectedRow struct {
	ID              int64
	Identifier      string
	File            string
	DPI             int    `db:"dpi"`
	MD5             string `db:"md5"`
	ContentPhash    int64
	NeedsExtraction bool
	NeedsDecision   bool
	NeedsParking    bool
	Stored          bool
	SourceID        int64
	StoredAt        time.Time
}

func (r selectedRow) eligible() bool { return r.NeedsExtraction || r.NeedsDecision || r.NeedsParking }

func (r selectedRow) card() Card {
	return Card{
		ID: r.ID, Identifier: r.Identifier, File: r.File, DPI: r.DPI, MD5: r.MD5, ContentPhash: r.ContentPhash,
		NeedsExtraction: r.NeedsExtraction, NeedsDecision: r.NeedsDecision, NeedsParking: r.NeedsParking, Stored: r.Stored,
	}
}

// chunk reads and judges the next cards after a position. Evidence from before the
// cut-off counts as none: it is computed anew, all of it.
func (d *Dispatcher) chunk(ctx context.Context, position int64, limit int) ([]selectedRow, error) {
	return d.judged(ctx, schema.Select, position, limit)
}

func (d *Dispatcher) judged(ctx context.Context, statement string, which any, limit int) ([]selectedRow, error) {
	rows, err := session.Rows[selectedRow](ctx, d.session, statement,
		which, limit, d.cfg.Versions, deduce.JoinKeyAgent, d.cfg.PoisonAfter)
	if err != nil {
		return nil, fmt.Errorf("select: %w", err)
	}
	for i, row := range rows {
		if len(d.cfg.Sources) > 0 && !slices.Contains(d.cfg.Sources, row.SourceID) {
			rows[i].NeedsExtraction, rows[i].NeedsDecision, rows[i].NeedsParking = false, false, false
			continue
		}
		if row.Stored && row.StoredAt.Before(d.cfg.Before) && !row.NeedsParking {
			rows[i].NeedsExtraction, rows[i].Stored = true, false
		}
	}
	return rows, nil
}

// Seeded returns those of the named cards on which there is something to do, in the
// order of the names, each once.
func (d *Dispatcher) Seeded(ctx context.Context, ids []int64) ([]Card, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := d.judged(ctx, schema.SelectCards, ids, len(ids))
	if err != nil {
		return nil, err
	}
	var cards []Card
	for _, id := range ids {
		for i, row := range rows {
			if row.ID == id && row.eligible() {
				cards = append(cards, row.card())
				rows[i] = selectedRow{}
			}
		}
	}
	return cards, nil
}

// SeedOrder is a dispatch of the named cards, whose batch is filled up with what the
// sweep's cursor finds. If the seed fills it, the cursor is not touched.
func (d *Dispatcher) SeedOrder(reason string, seed []int64) Order {
	return Order{Reason: reason, Claim: func(ctx context.Context) ([]Card, error) {
		cards, err := d.Seeded(ctx, seed)
		if err != nil || len(cards) >= d.cfg.Batch {
			return cards, err
		}
		walker := sweep.Walker{Session: d.session, Cursor: sweep.StageC, Read: d.reader(sweep.StageC)}
		found, err := walker.Claim(ctx, d.cfg.Batch-len(cards))
		if err != nil {
			return nil, err
		}
		room, err := d.Seeded(ctx, slices.DeleteFunc(found.IDs, func(id int64) bool { return slices.Contains(seed, id) }))
		return append(cards, room...), err
	}}
}

// walk is a stream's way over the catalogue: from the scope's mark to the end, and
// then from the start to where it began, so that "complete" means the whole of it.
type walk struct {
	at, from int64
	second   bool
}

// selected walks on until a batch is full or the way ends, and returns where that is.
func (d *Dispatcher) selected(ctx context.Context, w walk) ([]Card, walk, error) {
	var batch []Card
	for limit := 2 * d.cfg.Batch; ; limit *= 2 { // most chunks are dense; a sparse way takes longer steps
		rows, err := d.chunk(ctx, w.at, min(limit, chunkMax))
		if err != nil {
			return nil, w, err
		}
		for _, row := range rows {
			if w.second && row.ID > w.from {
				return batch, w, nil
			}
			w.at = row.ID
			if !row.eligible() {
				continue
			}
			batch = append(batch, row.card())
			if len(batch) == d.cfg.Batch {
				return batch, w, nil
			}
		}
		switch {
		case len(rows) > 0:
		case len(batch) > 0 || w.second || w.from == 0:
			return batch, w, nil
		default:
			w.at, w.second = 0, true
		}
	}
}

// reader is how a sweep's cursor sees the cards.
func (d *Dispatcher) reader(stage string) sweep.Read {
	return func(ctx context.Context, position int64, limit int) ([]sweep.Candidate, error) {
		rows, err := d.chunk(ctx, position, limit)
		if err != nil {
			return nil, err
		}
		seen := make([]sweep.Candidate, 0, len(rows))
		for _, row := range rows {
			wanted := row.NeedsExtraction || row.NeedsParking
			if stage == sweep.StageD {
				wanted = row.NeedsDecision
			}
			seen = append(seen, sweep.Candidate{ID: row.ID, Eligible: wanted})
		}
		return seen, nil
	}
}

// Plan counts what there is to do.
type Plan struct {
	Scope      string `json:"scope"`
	Position   int64  `json:"position"`
	Cards      int    `json:"cards"`
	Extraction int    `json:"need_extraction"`
	Decision   int    `json:"need_decision"`
	Parking    int    `json:"need_parking"`
	Batches    int    `json:"batches"`
	Trip       string `json:"open_trip,omitempty"`
}

// Plan walks the catalogue as a stream would and writes nothing.
func (d *Dispatcher) Plan(ctx context.Context) (Plan, error) {
	plan := Plan{Scope: d.cfg.Scope}
	halt, err := d.openTrip(ctx)
	if err != nil {
		return plan, err
	}
	plan.Trip = halt.Trip
	w, err := d.begun(ctx)
	if err != nil {
		return plan, err
	}
	plan.Position = w.from
	for position := int64(0); ; {
		rows, err := d.chunk(ctx, position, chunkMax)
		if err != nil || len(rows) == 0 {
			plan.Batches = (plan.Cards + d.cfg.Batch - 1) / d.cfg.Batch
			return plan, err
		}
		for _, row := range rows {
			position = row.ID
			plan.add(row)
		}
	}
}

func (p *Plan) add(row selectedRow) {
	switch {
	case row.NeedsExtraction:
		p.Extraction++
	case row.NeedsDecision:
		p.Decision++
	case row.NeedsParking:
		p.Parking++
	default:
		return
	}
	p.Cards++
}

// begun reads where the scope's last stream ended, unless a start was given.
func (d *Dispatcher) begun(ctx context.Context) (walk, error) {
	if d.cfg.StartAfter != nil {
		return walk{at: *d.cfg.StartAfter, from: *d.cfg.StartAfter}, nil
	}
	mark, err := session.Value[int64](ctx, d.session, schema.MarkRead, d.cfg.Scope)
	if err != nil {
		return walk{}, fmt.Errorf("mark-read: %w", err)
	}
	return walk{at: mark, from: mark}, nil
}

// marked keeps how far the scope's stream came. A second leg begins a new pass.
func (d *Dispatcher) marked(ctx context.Context, before, after walk, cards int) error {
	if after.second && !before.second {
		return d.reset(ctx, after.at)
	}
	_, err := d.session.Exec(context.WithoutCancel(ctx), schema.MarkAdvance, d.cfg.Scope, after.at, cards)
	if err != nil {
		return fmt.Errorf("mark-advance: %w", err)
	}
	return nil
}

func (d *Dispatcher) reset(ctx context.Context, position int64) error {
	_, err := d.session.Exec(context.WithoutCancel(ctx), schema.MarkReset, d.cfg.Scope, position)
	if err != nil {
		return fmt.Errorf("mark-reset: %w", err)
	}
	return nil
}
