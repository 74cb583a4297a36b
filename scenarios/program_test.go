package scenarios

import (
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/harness/event"
	"deadwire/scenarios/oracle"
)

func TestAProgramIsJudgedByItsRowsAndItsOutput(t *testing.T) {
	t.Parallel()
	r := result{
		outcome:  outcomeCompletes,
		snapshot: oracle.Snapshot{Rows: []string{"1 | unpaid", "2 | unpaid"}},
		events: []event.Event{
			{Kind: event.SubjectOutput, Output: &event.Output{Stream: "stderr", Text: "panic: lost it"}},
			{Kind: event.SubjectOutput, Output: &event.Output{Stream: "stdout", Text: "half done"}},
		},
	}
	e := Expect{Outcome: outcomeCompletes, NoRows: "select * from orders where not paid", Output: "all done", Forbid: "^panic:"}
	assert.DeepEqual(t, judge(e, r).problems, []string{
		"the check returned 2 rows, expected none: 1 | unpaid; 2 | unpaid",
		`no line of its output matches "all done"`,
		`a line of its output matches "^panic:": "panic: lost it"`,
	})
	r.snapshot.Rows, e.Output, e.Forbid = nil, "done$", "^fatal:"
	assert.Equal(t, len(judge(e, r).problems), 0)
}
