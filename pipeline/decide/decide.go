// Package decide owns Stage D against the database: it reads what the calculators
// need for a batch, asks them, and writes what they say in one transaction that is
// safe beside others over the same cards. It does not calculate (package deduce
// does) nor weigh votes (package consensus does). The rows that the transaction
// finds under its locks are authoritative about what is already there.
package decide

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"deadwire/pipeline/deduce"
	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// evidenceRow is what the statement Evidence returns.
type evidenceRow struct {
	deduce.Card
	Due bool
}

// candidateRow is what the statement Candidates returns.
type candidateRow struct {
	NormalName string
	deduce.Printing
}

// Proposal is what the calculators make of a batch, before anything is written.
type Proposal struct {
	said []deduce.Said
	tags []deduce.Tag
}

// Read asks the calculators about open and the chips about all cards. It takes a
// constant number of statements.
func Read(ctx context.Context, q session.Querier, run string, all, open []int64) (Proposal, error) {
	rows, err := session.Rows[evidenceRow](ctx, q, schema.Evidence, all, run, deduce.JoinKeyAgent)
	if err != nil {
		return Proposal{}, fmt.Errorf("evidence: %w", err)
	}
	candidates, err := candidatesOf(ctx, q, rows)
	if err != nil {
		return Proposal{}, err
	}
	known, err := session.Column[string](ctx, q, schema.Lexicon, codes(rows))
	if err != nil {
		return Proposal{}, fmt.Errorf("lexicon: %w", err)
	}
	d := desk{rows: rows, open: open, candidates: candidates, known: known}
	p := Proposal{said: d.consider(nil)}
	symbols, err := symbolsOf(ctx, q, p.said, candidates)
	if err != nil {
		return Proposal{}, err
	}
	if len(symbols) > 0 {
		p.said = d.consider(symbols)
	}
	for _, row := range rows {
		p.tags = append(p.tags, deduce.Attributes(row.Card)...)
	}
	return p, nil
}

// desk is what was read for a batch.
type desk struct {
	rows       []evidenceRow
	open       []int64
	candidates map[string][]deduce.Printing
	known      []string
}

func (d desk) consider(symbols map[string]int64) (said []deduce.Said) {
	for _, row := range d.rows {
		if !row.Due || !slices.Contains(d.open, row.ID) {
			continue
		}
		said = append(said, deduce.Consider(row.Card, deduce.Reference{
			Candidates: d.candidates[deduce.NormalName(row.Name)],
			KnownSet:   slices.ContainsFunc(d.known, func(code string) bool { return strings.EqualFold(code, row.SetCode) }),
			Symbols:    symbols,
		})...)
	}
	return said
}

// candidatesOf loads the printings that bear the batch's names, by normalised name.
func candidatesOf(ctx context.Context, q session.Querier, rows []evidenceRow) (map[string][]deduce.Printing, error) {
	var names, fronts []string
	for _, row := range rows {
		front, _, double := strings.Cut(row.Name, "//")
		if !double {
			front = ""
		}
		names, fronts = append(names, deduce.NormalName(row.Name)), append(fronts, deduce.NormalName(front))
	}
	found, err := session.Rows[candidateRow](ctx, q, schema.Candidates, names, fronts)
	if err != nil {
		return nil, fmt.Errorf("candidates: %w", err)
	}
	byName := map[string][]deduce.Printing{}
	for _, c := range found {
		byName[c.NormalName] = append(byName[c.NormalName], c.Printing)
	}
	return byName, nil
}

// codes lists the set codes that were read, in the ways in which a reference may write them.
func codes(rows []evidenceRow) []string {
	read := make([]string, 0, 3*len(rows))
	for _, row := range rows {
		if row.SetCode != "" {
			read = append(read, row.SetCode, strings.ToLower(row.SetCode), strings.ToUpper(row.SetCode))
		}
	}
	return read
}

// symbolsOf learns the symbols of the sets between which a calculator could not
// choose; none is asked for when all could.
func symbolsOf(ctx context.Context, q session.Querier, said []deduce.Said, candidates map[string][]deduce.Printing) (map[string]int64, error) {
	open := map[int64]bool{}
	for _, s := range said {
		for _, printing := range s.Survivors {
			open[printing] = true
		}
	}
	var sets []string
	for _, printings := range candidates {
		for _, p := range printings {
			if open[p.ID] {
				sets = append(sets, p.SetCode)
			}
		}
	}
	if len(sets) == 0 {
		return nil, nil
	}
	type seen struct {
		Set  string
		Hash int64
	}
	slices.Sort(sets)
	found, err := session.Tuples[seen](ctx, q, schema.Symbols, slices.Compact(sets))
	if err != nil {
		return nil, fmt.Errorf("symbols: %w", err)
	}
	symbols := map[string]int64{}
	for _, s := range found {
		symbols[s.Set] = s.Hash
	}
	return symbols, nil
}
