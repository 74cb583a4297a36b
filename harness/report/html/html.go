// Package html writes a run as one HTML page that needs nothing else: no script, no
// font, no picture, no network. It owns the page's order (what went wrong first) and
// its looks. The run's JSON is authoritative; the page says the same in rows.
package html

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"slices"

	"deadwire/harness/diagnose"
	"deadwire/harness/report"
	"deadwire/harness/rundir"
	"deadwire/harness/verdict"
)

//go:embed page.html
var source string

// page escapes by context, so that nothing a subject printed becomes markup.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"duration": report.Duration,
	"plain":    report.Plain,
	"title":    report.Title,
	"who":      report.Who,
	"actor":    report.ActorOf,
	"broken":   report.Broken,
	"evidence": report.Evidence,
	"ordinary": ordinary,
	"open":     func(v verdict.Verdict) bool { return v == verdict.Fail || v == verdict.Undetermined },
	"share":    share,
}).Parse(source))

// ordinary reports whether an ending was as it should be, whoever declared it.
func ordinary(e diagnose.Ending) bool { return e.Expected }

// share returns part of whole in per cent, for the width of a bar.
func share(part, whole int64) int64 {
	if whole <= 0 {
		return 0
	}
	return min(100, 100*part/whole)
}

// Reporter writes the page when the run is done.
type Reporter struct{ path string }

// New returns a reporter that writes to path, which appears whole or not at all.
func New(path string) *Reporter { return &Reporter{path: path} }

// Begin implements report.Reporter.
func (*Reporter) Begin(report.Plan) {}

// CaseStarted implements report.Reporter.
func (*Reporter) CaseStarted(report.Name) {}

// CaseDone implements report.Reporter.
func (*Reporter) CaseDone(report.Case) {}

// Done implements report.Reporter. Errors are *rundir.Error.
func (r *Reporter) Done(run report.Run) error {
	data, err := Render(run)
	if err != nil {
		return fmt.Errorf("write html: %w", err)
	}
	return rundir.WriteFile(r.path, data)
}

// view is what the page shows.
type view struct {
	report.Run
	Whole   verdict.Verdict
	Longest int64 // duration of the longest case, in milliseconds
	Sum     int64 // of all cases' durations
}

// Render returns the page of a run. Cases stand by verdict, the worst first, and
// otherwise in the order of the run.
func Render(run report.Run) ([]byte, error) {
	v := view{Run: run, Whole: run.Verdict()}
	v.Cases = slices.Clone(run.Cases)
	slices.SortStableFunc(v.Cases, func(a, b report.Case) int { return rank(a.Verdict) - rank(b.Verdict) })
	for _, c := range v.Cases {
		v.Longest = max(v.Longest, c.DurationMS)
		v.Sum += c.DurationMS
	}
	var out bytes.Buffer
	err := page.Execute(&out, v)
	return out.Bytes(), err
}

func rank(v verdict.Verdict) int {
	return slices.Index([]verdict.Verdict{verdict.Fail, verdict.Undetermined, verdict.Skip, verdict.Pass}, v)
}
