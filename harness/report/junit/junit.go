// Package junit writes a run as JUnit XML, which every CI reads. It owns the
// mapping (scenario to suite, case to testcase, verdict to element), not the
// XML's types. The run's JSON is authoritative; this file says less.
package junit

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"

	// Chosen because its types are the format that CI servers were tested with.
	"github.com/jstemmer/go-junit-report/v2/junit"

	"deadwire/harness/report"
	"deadwire/harness/rundir"
	"deadwire/harness/verdict"
)

// Reporter writes the file when the run is done.
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
		return fmt.Errorf("encode junit: %w", err)
	}
	return rundir.WriteFile(r.path, data)
}

// Render returns the XML of run.
func Render(run report.Run) ([]byte, error) {
	suites := junit.Testsuites{Name: "deadwire", Time: seconds(run.DurationMS)}
	for _, group := range byScenario(run.Cases) {
		suites.AddSuite(suite(run, group, len(suites.Suites)))
	}
	var out bytes.Buffer
	out.WriteString(xml.Header)
	err := suites.WriteXML(&out)
	return out.Bytes(), err
}

// byScenario groups cases by scenario, in order of first appearance.
func byScenario(cases []report.Case) [][]report.Case {
	var groups [][]report.Case
	position := map[string]int{}
	for _, c := range cases {
		at, known := position[c.Scenario]
		if !known {
			at = len(groups)
			position[c.Scenario] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], c)
	}
	return groups
}

func suite(run report.Run, cases []report.Case, id int) junit.Testsuite {
	s := junit.Testsuite{Name: report.Plain(cases[0].Scenario), ID: id}
	s.AddProperty("seed", report.Plain(run.Seed))
	s.AddProperty("postgres", report.Plain(run.Postgres.Version+" ("+run.Postgres.Provider+")"))
	s.AddProperty("version", report.Plain(run.Version))
	var total int64
	for _, c := range cases {
		total += c.DurationMS
		s.AddTestcase(testcase(c))
	}
	s.Time = seconds(total)
	return s
}

func testcase(c report.Case) junit.Testcase {
	name := c.Case
	if c.Iteration > 0 {
		name += "#" + strconv.Itoa(c.Iteration)
	}
	t := junit.Testcase{Name: report.Plain(name), Classname: "deadwire." + report.Plain(c.Scenario), Time: seconds(c.DurationMS)}
	switch c.Verdict {
	case verdict.Fail:
		t.Failure = &junit.Result{Message: c.Said(), Type: kind(c), Data: details(c)}
	case verdict.Undetermined:
		t.Error = &junit.Result{Message: c.Said(), Type: "undetermined", Data: details(c)}
	case verdict.Skip:
		t.Skipped = &junit.Result{Message: c.Said()}
	}
	return t
}

// kind names the broken promise, or the rule of the ending nobody expected.
func kind(c report.Case) string {
	if len(c.Findings) > 0 {
		if name := c.Findings[0].Invariant; name != "" {
			return report.Plain(name)
		}
		return report.Plain(c.Findings[0].Rule)
	}
	if unexpected := c.Unexpected(); len(unexpected) > 0 {
		return report.Plain(unexpected[0].Rule)
	}
	return "expectation"
}

func details(c report.Case) string {
	var lines []string
	for _, f := range c.Findings {
		lines = append(lines, strings.TrimSpace(report.Broken(f)+": "+report.Plain(f.Message)+" "+report.Evidence(f.Evidence)))
	}
	for _, e := range c.Unexpected() {
		lines = append(lines, report.Title(e)+": "+report.Who(e), "  "+report.How(e))
	}
	if c.Error != "" {
		lines = append(lines, "error: "+report.Plain(c.Error))
	}
	return strings.Join(lines, "\n")
}

func seconds(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64) }
