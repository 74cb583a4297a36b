package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"deadwire/pipeline/catalogue"
	"deadwire/pipeline/evidence"
)

// conveyorCards are ten batches of cards that are too small for their text to be read.
const conveyorCards = 10 * batchSize

// conveyorRows compares conveyor with a bare loop over the same compute, in milliseconds
// for each card, and shows what a batch costs beside its compute.
func conveyorRows() []Row {
	return []Row{
		{Name: "conveyor/loop", Unit: "ms", Prepare: onCards((*judge).loop)},
		{Name: "conveyor/1-worker", Unit: "ms", Limit: "<= 1.11", Prepare: onCards(func(j *judge, ctx context.Context) (float64, error) {
			return j.perCard(ctx, 1)
		})},
		{Name: "conveyor/2-workers", Unit: "ms", Against: "conveyor/1-worker", Limit: "<= 0.56", Prepare: onCards(func(j *judge, ctx context.Context) (float64, error) {
			return j.perCard(ctx, 2)
		})},
		{Name: "conveyor-batch/overhead", Unit: "ms", Limit: "value <= 15", Prepare: onCards((*judge).overhead)},
	}
}

// onCards lends a measurement the catalogue that conveyor's rows share.
func onCards(measure func(*judge, context.Context) (float64, error)) func(context.Context, *Bench) (Measure, error) {
	return func(ctx context.Context, b *Bench) (Measure, error) {
		if b.conveyor == nil {
			j := &judge{cards: conveyorCards, seed: 1, width: 300, height: 420, plain: true}
			if err := j.prepare(ctx, b); err != nil {
				return nil, err
			}
			b.conveyor = j
		}
		return func(ctx context.Context) (float64, error) { return measure(b.conveyor, ctx) }, nil
	}
}

// loop computes every card in this process, from file to evidence.
func (j *judge) loop(ctx context.Context) (float64, error) {
	files, err := filepath.Glob(filepath.Join(j.dir, catalogue.ImagesDir, "*"))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("find images in %s: %d, %w", j.dir, len(files), err)
	}
	began := time.Now()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		if _, err := evidence.Extract(ctx, evidence.Input{Data: data, DPI: 121}); err != nil {
			return 0, fmt.Errorf("extract %s: %w", file, err)
		}
	}
	return millis(time.Since(began)) / float64(len(files)), nil
}

// again makes the catalogue as it was before any work, but for what is cached.
func (j *judge) again(ctx context.Context) error {
	_, err := j.conn.Exec(ctx, `truncate image_evidence, card_scan_log, card_printing_tag, card_tag_vote, card_illustration_vote,
		card_illustration_rejection, stage_c_attempt, stage_c_claim, pilot_run_ledger, stage_e_full_catalog_cursor`)
	return err
}

// batchesSQL leaves out the first batch, which starts the workers.
const batchesSQL = `select percentile_cont(0.5) within group (order by (counters ->> 'elapsed_s')::float8) * 1000
from pilot_run_ledger where status = 'completed' and run_id !~ '-b0*1$'`

// batch streams the whole catalogue and returns the median batch's milliseconds.
func (j *judge) batch(ctx context.Context, workers int) (took float64, err error) {
	if err := j.again(ctx); err != nil {
		return 0, err
	}
	if _, err := j.stream(ctx, workers); err != nil {
		return 0, err
	}
	err = j.conn.QueryRow(ctx, batchesSQL).Scan(&took)
	return took, err
}

func (j *judge) perCard(ctx context.Context, workers int) (float64, error) {
	took, err := j.batch(ctx, workers)
	return took / batchSize, err
}

// overhead is what a batch with one worker takes beyond its compute.
func (j *judge) overhead(ctx context.Context) (float64, error) {
	perCard, err := j.loop(ctx)
	if err != nil {
		return 0, err
	}
	took, err := j.batch(ctx, 1)
	return took - batchSize*perCard, err
}
