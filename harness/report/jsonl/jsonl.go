// Package jsonl shows a run as one JSON object per line, for programs that
// follow it while it goes on. It owns the lines, not their content: a case is
// report.Case. The first line names the schema and the last holds the totals;
// a reader that sees no last line knows that the run was cut short.
package jsonl

import (
	"encoding/json"
	"fmt"
	"io"

	"deadwire/harness/report"
	"deadwire/harness/verdict"
)

// Schema is the schema of the lines.
const Schema = "deadwire.lines/1"

// Reporter writes lines to one writer.
type Reporter struct {
	out *json.Encoder
	err error
}

// New returns a reporter that writes to w, each line in one Write.
func New(w io.Writer) *Reporter {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	return &Reporter{out: out}
}

type beginLine struct {
	Type   string `json:"type"` // run
	Schema string `json:"schema"`
	report.Plan
}

type startedLine struct {
	Type string `json:"type"` // started
	report.Name
}

type caseLine struct {
	Type string `json:"type"` // case
	report.Case
}

type doneLine struct {
	Type        string          `json:"type"` // done
	Verdict     verdict.Verdict `json:"verdict"`
	Seed        string          `json:"seed"`
	DurationMS  int64           `json:"duration_ms"`
	Interrupted bool            `json:"interrupted,omitempty"`
	Totals      verdict.Totals  `json:"totals"`
}

// Begin implements report.Reporter.
func (r *Reporter) Begin(p report.Plan) {
	if p.Cases == nil {
		p.Cases = []report.Name{}
	}
	r.line(beginLine{Type: "run", Schema: Schema, Plan: p})
}

// CaseStarted implements report.Reporter.
func (r *Reporter) CaseStarted(n report.Name) { r.line(startedLine{Type: "started", Name: n}) }

// CaseDone implements report.Reporter.
func (r *Reporter) CaseDone(c report.Case) { r.line(caseLine{Type: "case", Case: c}) }

// Done implements report.Reporter.
func (r *Reporter) Done(run report.Run) error {
	r.line(doneLine{
		Type: "done", Verdict: run.Verdict(), Seed: run.Seed, DurationMS: run.DurationMS,
		Interrupted: run.Interrupted, Totals: run.Totals,
	})
	return r.err
}

// line writes v unless an earlier line was lost already: a gap in the middle
// would be worse than an end that is missing.
func (r *Reporter) line(v any) {
	if r.err != nil {
		return
	}
	if err := r.out.Encode(v); err != nil {
		r.err = fmt.Errorf("write JSON lines: %w", err)
	}
}
