package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"deadwire/pipeline/catalogue"
	"deadwire/pipeline/dispatch"
	"deadwire/pipeline/evidence"
	"deadwire/pipeline/fetch"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// Probed is where the time of a card goes: medians over a sample, in milliseconds.
type Probed struct {
	Cards     int     `json:"cards"`
	Failed    int     `json:"failed"` // that could not be fetched or decoded
	FetchMS   float64 `json:"fetch_ms"`
	MeasureMS float64 `json:"measure_ms"` // decoding, hashes and all extractors without text
	TextMS    float64 `json:"text_ms"`    // OCR; 0 where there is none
	StoreMS   float64 `json:"store_ms"`
}

// probeRun is the run id of evidence that is never kept.
const probeRun = "probe"

// errUnkept ends a transaction that was only timed.
var errUnkept = errors.New("not kept")

// Probe is Stage A: it takes n cards one after the other through everything that Stage
// C does, and keeps nothing: what it stores is rolled back.
func Probe(ctx context.Context, database session.Config, location string, n int) (done Probed, err error) {
	source, err := catalogue.ParseSource(location)
	if err != nil {
		return done, err
	}
	err = within(ctx, database, "probe", func(s *session.Session) error {
		p := &probe{computer: computer{session: s}, source: source, fetcher: fetch.New(fetch.Config{})}
		defer p.fetcher.Close()
		p.text = newReaders(p.lexicon)
		done, err = p.all(ctx, n)
		return err
	})
	return done, err
}

type probe struct {
	computer
	source  catalogue.Source
	fetcher *fetch.Fetcher
}

// probeCard is what the statement ProbeCards returns.
type probeCard struct {
	ID, PHash int64
	File      string
	DPI       int
}

// split is one card's times.
type split struct{ fetch, measure, text, store time.Duration }

func (p *probe) all(ctx context.Context, n int) (done Probed, err error) {
	cards, err := session.Tuples[probeCard](ctx, p.session, schema.ProbeCards, n)
	if err != nil {
		return done, fmt.Errorf("probe-cards: %w", err)
	}
	var splits []split
	for _, card := range cards {
		took, good, err := p.one(ctx, card)
		switch {
		case err != nil:
			return done, err
		case good:
			splits = append(splits, took)
		default:
			done.Failed++
		}
	}
	done.Cards = len(cards)
	done.FetchMS = middle(splits, func(s split) time.Duration { return s.fetch })
	done.MeasureMS = middle(splits, func(s split) time.Duration { return s.measure })
	done.TextMS = middle(splits, func(s split) time.Duration { return s.text })
	done.StoreMS = middle(splits, func(s split) time.Duration { return s.store })
	return done, nil
}

// one says also whether the card could be fetched and decoded.
func (p *probe) one(ctx context.Context, card probeCard) (took split, good bool, err error) {
	got := p.fetcher.Fetch(ctx, fetch.Request{ID: card.File, URL: p.source.URL(card.File)})
	if got.Outcome != fetch.Fetched {
		return took, false, context.Cause(ctx)
	}
	took.fetch = got.Latency
	began := time.Now()
	found, err := evidence.Extract(ctx, evidence.Input{Data: got.Body, DPI: card.DPI, Latency: got.Latency})
	if err != nil {
		return took, false, context.Cause(ctx) // a damaged card, unless we were ended
	}
	took.measure = time.Since(began)
	if p.text != nil {
		began = time.Now()
		found, err = p.extract(ctx, jobArgs{DPI: card.DPI, Latency: got.Latency}, got.Body)
		if err != nil {
			return took, false, err
		}
		took.text = max(0, time.Since(began)-took.measure)
	}
	took.store, err = p.store(ctx, card, found)
	return took, err == nil, err
}

// store times what a worker sends, and takes it back.
func (p *probe) store(ctx context.Context, card probeCard, found evidence.Evidence) (took time.Duration, err error) {
	began := time.Now()
	var stored error
	err = p.session.InTx(ctx, func(tx *session.Tx) error {
		wrote, err := session.Value[int64](ctx, tx, schema.Persist, card.ID, found, card.PHash, probeRun, dispatch.Agent, []string{})
		stored = session.Expect(1)(wrote, err)
		took = time.Since(began)
		return errUnkept
	})
	if stored == nil && !p.session.Lost() && errors.Is(err, errUnkept) {
		return took, nil
	}
	return took, errors.Join(stored, err)
}

// middle is the median in milliseconds; 0 of nothing.
func middle(splits []split, of func(split) time.Duration) float64 {
	if len(splits) == 0 {
		return 0
	}
	var times []time.Duration
	for _, s := range splits {
		times = append(times, of(s))
	}
	slices.Sort(times)
	return float64(times[len(times)/2].Microseconds()) / 1000
}
