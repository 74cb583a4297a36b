package scenarios

import (
	"regexp"
	"strings"

	"deadwire/harness/event"
)

// rowsShown bounds how many rows of a check are quoted.
const rowsShown = 3

// rows notes what a case's own query found that must not be there.
func (j *judgement) rows(e Expect, r result) {
	rows := r.snapshot.Rows
	if e.NoRows == "" || len(rows) == 0 {
		return
	}
	j.problem("the check returned %d rows, expected none: %s", len(rows), strings.Join(rows[:min(len(rows), rowsShown)], "; "))
}

// output compares the subject's lines with the patterns of a case, which were
// compiled when the scenario was loaded.
func (j *judgement) output(e Expect, r result) {
	if e.Output != "" && r.printed(e.Output) == "" {
		j.problem("no line of its output matches %q", e.Output)
	}
	if e.Forbid == "" {
		return
	}
	if line := r.printed(e.Forbid); line != "" {
		j.problem("a line of its output matches %q: %q", e.Forbid, line)
	}
}

// printed returns the first line of the subject's output that matches a pattern.
func (r result) printed(pattern string) string {
	match := regexp.MustCompile(pattern)
	for _, e := range r.events {
		if e.Kind == event.SubjectOutput && match.MatchString(e.Output.Text) {
			return e.Output.Text
		}
	}
	return ""
}
