package scenarios

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"deadwire/harness/diagnose"
	"deadwire/harness/event"
	"deadwire/harness/report"
)

// ruleInherited is the accusation that can be proven: suppressing the act leaves
// everything else as it was.
const ruleInherited = "fork.inherited-terminate"

func accused(r diagnose.Report) int {
	return slices.IndexFunc(r.Endings, func(e diagnose.Ending) bool { return e.Rule == ruleInherited })
}

// prove runs a case again, on a database of its own, with the acts suppressed by
// which inheritors end sessions. Without an accusation, or without the exact
// witness, there is nothing that could be proven.
func (r *Runner) prove(ctx context.Context, s Scenario, c Case, dir string, first result) (_ *report.Proof, err error) {
	at := accused(first.report)
	if at < 0 || !first.exact {
		return nil, nil
	}
	dir = filepath.Join(dir, "proof")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	db, err := r.database(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close(context.WithoutCancel(ctx))) }()
	redo, err := r.redo(ctx, s, db, dir)
	if err != nil {
		return nil, err
	}
	again := attempt{
		runner: r, scenario: s, faults: c.Faults, after: c.After, database: db, dir: dir, name: "proof", guard: true,
		redo: redo, earlier: redo.earlier,
	}
	second, err := again.do(ctx)
	if err != nil {
		return nil, fmt.Errorf("prove: %w", err)
	}
	p := &report.Proof{Suppressed: report.Act(first.report.Endings[at]), Outcome: report.Outcome(second.outcome)}
	if second.outcome != outcomeCompletes {
		p.Error = second.lastWords()
	}
	suppressed := slices.ContainsFunc(second.events, func(e event.Event) bool { return e.Call != nil && e.Call.Blocked })
	p.Proven = suppressed && accused(second.report) < 0 && second.outcome == outcomeCompletes
	return p, nil
}
