package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"deadwire/pipeline/dispatch"
	"deadwire/pipeline/fetch"
	"deadwire/pipeline/session"
	"deadwire/pipeline/worker"
)

// extractor is the coordinator's side of Stage C: it fetches in submission order
// and hands images to the worker processes. It sends nothing on the coordinator's session.
type extractor struct {
	conveyor *Conveyor
	fetcher  *fetch.Fetcher
	pace     *pace
	session  *session.Session
	pool     *worker.Pool
}

// Extract runs Stage C for the cards of a batch. The workers are started by the
// first batch that needs them, so that its ledger row is there before them, and stay.
func (e *extractor) Extract(ctx context.Context, _ string, cards []dispatch.Card) (dispatch.Extraction, error) {
	if len(cards) == 0 {
		return dispatch.Extraction{}, nil
	}
	err := e.ready(ctx)
	if err != nil {
		return dispatch.Extraction{}, err
	}
	run := &stageC{extractor: e, cards: cards, byJob: map[string]int64{}}
	err = e.pool.Run(ctx, run.jobs(ctx), run.deliver)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return run.done, oneDeath(err)
}

// oneDeath keeps of a death only the death: the pool adds, in the same words, that
// it is broken now.
func oneDeath(err error) error {
	if exit, ok := errors.AsType[*worker.ExitError](err); ok {
		return exit
	}
	return err
}

// ready starts the workers, or replaces those that died since the last batch.
func (e *extractor) ready(ctx context.Context) (err error) {
	if e.pool != nil {
		return e.pool.Heal(ctx)
	}
	cfg := e.conveyor.cfg
	setup, err := json.Marshal(workerSetup{Database: cfg.Database, Run: cfg.Run, Level: cfg.Level})
	if err != nil {
		return fmt.Errorf("write worker setup: %w", err)
	}
	e.pool, err = worker.Start(ctx, worker.Config{
		Command: append([]string{""}, cfg.WorkerArgs...), Setup: setup, Workers: cfg.Workers,
		RecycleAfter: cfg.RecycleAfter, Stderr: cfg.Stderr, Seam: cfg.Seam, Session: e.session,
	})
	if err != nil {
		return fmt.Errorf("start workers: %w", err)
	}
	return nil
}

// pids are the workers' process ids, none before they were started.
func (e *extractor) pids() []int {
	if e.pool == nil {
		return nil
	}
	return e.pool.PIDs()
}

// close waits for every worker, on a context of its own.
func (e *extractor) close(ctx context.Context) {
	if e.pool == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveMax)
	defer cancel()
	err := e.pool.Close(ctx)
	if err != nil {
		e.conveyor.log.Warn("workers did not leave in order", "error", err.Error())
	}
}

// stageC is Stage C of one batch.
type stageC struct {
	*extractor
	cards []dispatch.Card
	byJob map[string]int64
	done  dispatch.Extraction
}

func (s *stageC) requests() iter.Seq[fetch.Request] {
	return func(yield func(fetch.Request) bool) {
		for _, card := range s.cards {
			if !yield(fetch.Request{ID: card.Identifier, URL: s.conveyor.source.URL(card.File)}) {
				return
			}
		}
	}
}

// jobs turns fetch results, in submission order, into jobs. It ends early when the
// source locks us out: what was handed over is drained, nothing more is consumed.
func (s *stageC) jobs(ctx context.Context) iter.Seq[worker.Job] {
	return func(yield func(worker.Job) bool) {
		next := 0
		for result := range s.fetcher.All(ctx, s.requests()) {
			card := s.cards[next]
			next++
			s.pace.observe(result.Status)
			if result.Outcome != fetch.Fetched {
				if !s.missed(card, result) {
					return
				}
				continue
			}
			if !yield(s.job(card, result)) {
				return
			}
		}
	}
}

func (s *stageC) job(card dispatch.Card, result fetch.Result) worker.Job {
	args, err := json.Marshal(jobArgs{Card: card.ID, PHash: card.ContentPhash, MD5: card.MD5, DPI: card.DPI, Latency: result.Latency, Stored: card.Stored})
	if err != nil {
		panic(err) // a struct of numbers and a string always marshals
	}
	s.byJob[card.Identifier] = card.ID
	return worker.Job{ID: card.Identifier, Args: args, Body: result.Body}
}

// missed counts a fetch without bytes and says whether to go on. Its card is
// skipped by name and stays eligible.
func (s *stageC) missed(card dispatch.Card, result fetch.Result) bool {
	switch result.Outcome {
	case fetch.Cancelled:
		return false
	case fetch.LockedOut:
		s.done.Lockout = true
		s.done.FetchFailures++
	case fetch.Throttled:
		s.done.Throttled++
		s.skip(card.ID, dispatch.FetchThrottle)
	default:
		s.done.FetchFailures++
		s.skip(card.ID, dispatch.FetchFailed)
	}
	s.conveyor.log.Warn("fetch failed", "card", card.Identifier, "outcome", string(result.Outcome), "error", result.Err.Error())
	return !s.done.Lockout
}

func (s *stageC) skip(card int64, reason string) {
	s.done.Skips = append(s.done.Skips, dispatch.Skip{Card: card, Reason: reason})
}

// deliver counts one worker's answer. Its error ends the batch.
func (s *stageC) deliver(result worker.Result) error {
	if result.Err != nil {
		return result.Err
	}
	var reply jobReply
	err := json.Unmarshal(result.Value, &reply)
	if err != nil {
		return fmt.Errorf("read answer to job %s: %w", result.Job, err)
	}
	switch reply.Skip {
	case "":
		s.done.Completed++
		return nil
	case dispatch.DamagedImage:
		s.done.Damaged++
	default:
		s.done.FetchFailures++
	}
	s.skip(s.byJob[result.Job], reply.Skip)
	s.conveyor.log.Warn("card skipped", "card", result.Job, "reason", reply.Skip)
	return nil
}
