// Package terminal shows a run to people: a line per case as it ends, a block
// per failure, one last line. It owns layout, colour and width, never facts or
// judgements: those come from package report. The last line of every format
// holds verdict and seed.
package terminal

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"deadwire/harness/report"
	"deadwire/harness/verdict"
)

// Format says how much is shown.
type Format string

// The formats for people. All end with the blocks of the cases that did not
// pass, except Quiet, and with the same last line.
const (
	List  Format = "list"  // a line per case
	Dots  Format = "dots"  // a sign per case
	Quiet Format = "quiet" // the cases that did not pass, one line each
)

// Reporter shows one run on a screen.
type Reporter struct {
	screen  Screen
	format  Format
	style   palette
	plan    report.Plan
	running []report.Name
	done    int
	column  int  // of the next dot
	status  bool // a status line stands on the screen
	err     error
}

// New returns a reporter for a screen. An empty format means List.
func New(screen Screen, format Format) *Reporter {
	screen = screen.withDefaults()
	return &Reporter{screen: screen, format: format, style: newPalette(screen)}
}

// Begin implements report.Reporter.
func (r *Reporter) Begin(p report.Plan) {
	r.plan = p
	if r.format == Quiet {
		return
	}
	parts := []string{
		"deadwire " + report.Plain(p.Version),
		"seed " + report.Plain(p.Seed),
		postgres(p.Postgres),
		"run " + report.Plain(p.Dir),
	}
	r.print(paint(r.style.bold, flow(parts, "   ", r.screen.Width)) + "\n")
}

func postgres(p report.Postgres) string {
	if p.Version == "" {
		return "postgres unknown"
	}
	return fmt.Sprintf("postgres %s (%s)", report.Plain(p.Version), report.Plain(p.Provider))
}

// CaseStarted implements report.Reporter.
func (r *Reporter) CaseStarted(n report.Name) {
	r.running = append(r.running, n)
	r.showStatus()
}

// CaseDone implements report.Reporter.
func (r *Reporter) CaseDone(c report.Case) {
	r.done++
	if at := slices.Index(r.running, c.Name); at >= 0 {
		r.running = slices.Delete(r.running, at, at+1)
	}
	switch r.format {
	case Dots:
		r.printDot(c)
	case Quiet:
		if c.Verdict == verdict.Fail || c.Verdict == verdict.Undetermined {
			r.print(r.line(c))
		}
	default:
		r.print(r.line(c))
	}
	r.showStatus()
}

func (r *Reporter) printDot(c report.Case) {
	r.print(r.style.verdicts[c.Verdict].Render(sign(c.Verdict)))
	if r.column++; r.column == r.screen.Width {
		r.column = 0
		r.print("\n")
	}
}

func sign(v verdict.Verdict) string {
	switch v {
	case verdict.Pass:
		return "."
	case verdict.Fail:
		return "F"
	case verdict.Undetermined:
		return "?"
	default:
		return "s"
	}
}

// Done implements report.Reporter.
func (r *Reporter) Done(run report.Run) error {
	r.running = nil
	if r.column > 0 {
		r.print("\n")
	}
	if r.format != Quiet {
		for _, v := range []verdict.Verdict{verdict.Undetermined, verdict.Fail} { // the worst stands last, nearest to the reader
			r.printBlocks(run, v)
		}
		r.print("\n")
		r.printHint(run)
	}
	r.print(lastLine(run, r.style))
	if r.err != nil && !errors.Is(r.err, syscall.EPIPE) { // whoever read it has seen enough
		return fmt.Errorf("write report: %w", r.err)
	}
	return nil
}

// blocksMax bounds the blocks of one verdict; beyond it names must do.
const blocksMax = 20

func (r *Reporter) printBlocks(run report.Run, v verdict.Verdict) {
	shown := 0
	for _, c := range run.Cases {
		if c.Verdict != v || c.NotRun {
			continue
		}
		if shown++; shown > blocksMax {
			r.print(r.line(c))
			continue
		}
		r.print("\n" + block(run, c, r.style, r.screen.Width))
	}
}

// printHint says how to come back to what went wrong.
func (r *Reporter) printHint(run report.Run) {
	if run.Totals.Fail+run.Totals.Undetermined > 0 && run.Dir != "" {
		parts := []string{"read it again: deadwire show latest-failed", "what a rule means: deadwire explain RULE", "run it again: deadwire run --last-failed"}
		r.print(paint(r.style.dim, flow(parts, "   ", r.screen.Width)) + "\n")
	}
}

// print writes results, clearing a status line that may stand on the same terminal.
func (r *Reporter) print(text string) {
	r.clearStatus()
	if _, err := io.WriteString(r.screen.Out, text); err != nil && r.err == nil {
		r.err = err
	}
}

// showStatus rewrites the status line: what runs now. Progress is a courtesy,
// so a standard error that cannot be written is not an error.
func (r *Reporter) showStatus() {
	if !r.screen.Interactive || r.format == Dots {
		return
	}
	r.clearStatus()
	if len(r.running) == 0 {
		return
	}
	names := make([]string, len(r.running))
	for i, n := range r.running {
		names[i] = report.Plain(n.String())
	}
	text := cut(fmt.Sprintf("  %d of %d   running %s", r.done, len(r.plan.Cases), strings.Join(names, ", ")), r.screen.Width-1)
	_, _ = io.WriteString(r.screen.Err, r.style.dim.Render(text))
	r.status = true
}

func (r *Reporter) clearStatus() {
	if !r.status {
		return
	}
	r.status = false
	_, _ = io.WriteString(r.screen.Err, "\r\x1b[K")
}
