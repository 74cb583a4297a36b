package scenarios

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"deadwire/faults"
	"deadwire/harness"
	"deadwire/harness/pg"
	"deadwire/harness/report"
	"deadwire/harness/rundir"
	"deadwire/harness/verdict"
	"deadwire/scenarios/oracle"
	"deadwire/scenarios/workload"
)

// Runner carries out cases on a rig. It is safe for concurrent use.
type Runner struct {
	Rig     *harness.Rig
	Store   *workload.Store
	Subject workload.Program
	Dir     *rundir.Dir
	Seed    string // of the run; workloads without a seed of their own take it
	// Prove runs a case in which a process was accused of ending another's session
	// once more, with only that act suppressed.
	Prove bool
	// Lanes begins the names of its lanes, where several runners share the rig.
	Lanes string

	mu         sync.Mutex
	references map[string]*reference
	serial     int
	lacking    error // the first error of the environment
	library    library
}

// reference is a fault-free run of one workload, made once.
type reference struct {
	once     sync.Once
	snapshot oracle.Snapshot
	dir      string // relative to the run's
	err      error
}

// referenceError says that the subject does not even pass without a fault.
type referenceError struct{ problems []string }

func (e *referenceError) Error() string {
	return "even the fault-free run fails: " + strings.Join(e.problems, "; ")
}

// ErrEnvironment marks errors of the machine: no disk, no server, no port.
var ErrEnvironment = errors.New("environment")

// Run carries out one case and judges it. Whatever goes wrong in deadwire or
// its environment makes the case undetermined, with the reason.
func (r *Runner) Run(ctx context.Context, s Scenario, c Case, iteration int) report.Case {
	began := time.Now()
	s.Workload = s.Workload.with(c.Workload)
	out := report.Case{
		Name:      report.Name{Scenario: s.Name, Case: c.Name},
		Iteration: iteration,
	}
	if s.File != "" {
		out.Where = fmt.Sprintf("%s:%d", s.File, c.Line)
	}
	if err := r.run(ctx, s, c, &out); err != nil {
		out.Verdict, out.Reason = verdict.Undetermined, err.Error()
		r.note(err)
		var unavailable *UnavailableError
		if errors.As(err, &unavailable) {
			out.Verdict = verdict.Skip
		}
	}
	out.DurationMS = time.Since(began).Milliseconds()
	if out.Dir != "" {
		// The verdict is kept beside its evidence; a full disk is reported by the run.
		_ = rundir.WriteJSON(filepath.Join(r.Dir.Path(), out.Dir, "case.json"), out)
	}
	return out
}

// Lacking returns the first error of the environment that kept a case from being
// judged, or nil.
func (r *Runner) Lacking() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lacking
}

func (r *Runner) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var disk *rundir.Error
	if r.lacking == nil && (errors.Is(err, ErrEnvironment) || errors.As(err, &disk)) {
		r.lacking = err
	}
}

func (r *Runner) run(ctx context.Context, s Scenario, c Case, out *report.Case) (err error) {
	dir, err := r.caseDir(s, c, out)
	if err != nil {
		return err
	}
	if s.Command, err = r.library.expand(ctx, r.Dir, s.Command, c.Name); err != nil {
		return err
	}
	db, err := r.database(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close(context.WithoutCancel(ctx))) }()
	redo, err := r.redo(ctx, s, db, dir)
	if err != nil {
		return err
	}
	first := attempt{runner: r, scenario: s, faults: c.Faults, after: c.After, database: db, dir: dir, name: "first", redo: redo, earlier: redo.earlier, noRows: c.Expect.NoRows}
	result, err := first.do(ctx)
	if err != nil {
		return err
	}
	judged, err := r.judged(ctx, s, c.Expect, result, dir)
	result.fill(out)
	if err != nil {
		return err
	}
	if c.Resume != nil {
		if err := r.resume(ctx, &first, c.Resume.Expect, result, &judged, out); err != nil {
			return err
		}
	}
	if r.Prove {
		if out.Proof, err = r.prove(ctx, s, c, dir, result); err != nil {
			return err
		}
	}
	judged.fill(out)
	return nil
}

// resume runs the subject again, without faults, over what the first run left.
func (r *Runner) resume(ctx context.Context, first *attempt, e Expect, before result, judged *judgement, out *report.Case) error {
	dir := filepath.Join(first.dir, resumeName)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	second := attempt{
		runner: r, scenario: first.scenario, database: first.database, dir: dir, name: "resume",
		redo: first.redo, earlier: &before.snapshot, noRows: e.NoRows,
	}
	began := time.Now()
	after, err := second.do(ctx)
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	out.RecoveryMS = time.Since(began).Milliseconds()
	again, err := r.judged(ctx, first.scenario, e, after, dir)
	if err != nil {
		return err
	}
	judged.resumed(again, after, out)
	return nil
}

// judged judges an attempt and keeps what it was judged on beside its journal.
func (r *Runner) judged(ctx context.Context, s Scenario, e Expect, got result, dir string) (judgement, error) {
	j := judge(e, got)
	reference, err := r.converges(ctx, s, e, got, &j)
	if err != nil {
		return j, err
	}
	return j, keepFacts(dir, e, got, reference)
}

// converges compares with the fault-free run of the same workload, and returns the
// folder of that one, relative to the run's; it is empty when nothing was compared.
func (r *Runner) converges(ctx context.Context, s Scenario, e Expect, got result, j *judgement) (string, error) {
	if !e.Converges || len(j.problems) > 0 {
		return "", nil // a comparison could not make it worse
	}
	want, err := r.reference(ctx, s)
	var wrong *referenceError
	if errors.As(err, &wrong) {
		j.problems = append(j.problems, wrong.Error())
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("fault-free run: %w", err)
	}
	j.compare(got.snapshot, want.snapshot)
	return want.dir, nil
}

func (r *Runner) reference(ctx context.Context, s Scenario) (*reference, error) {
	key := referenceKey(r.catalogue(s), s.Workload.Redo)
	r.mu.Lock()
	if r.references == nil {
		r.references = map[string]*reference{}
	}
	ref := r.references[key]
	if ref == nil {
		ref = &reference{}
		r.references[key] = ref
	}
	r.mu.Unlock()
	ref.once.Do(func() { ref.snapshot, ref.dir, ref.err = r.faultFree(ctx, s) })
	return ref, ref.err
}

func (r *Runner) faultFree(ctx context.Context, s Scenario) (snapshot oracle.Snapshot, rel string, err error) {
	dir, err := r.Dir.Case("fault-free", referenceKey(r.catalogue(s), s.Workload.Redo))
	if err != nil {
		return snapshot, "", err
	}
	if rel, err = filepath.Rel(r.Dir.Path(), dir); err != nil {
		return snapshot, "", err
	}
	s.Server, s.Witness = "", Witness{}
	db, err := r.database(ctx, s)
	if err != nil {
		return snapshot, rel, err
	}
	defer func() { err = errors.Join(err, db.Close(context.WithoutCancel(ctx))) }()
	redo, err := r.redo(ctx, s, db, dir)
	if err != nil {
		return snapshot, rel, err
	}
	a := attempt{runner: r, scenario: s, database: db, dir: dir, name: "fault-free", redo: redo, earlier: redo.earlier}
	got, err := a.do(ctx)
	if err != nil {
		return snapshot, rel, err
	}
	if j := judge(Expect{Outcome: outcomeCompletes}, got); len(j.problems) > 0 {
		return snapshot, rel, &referenceError{problems: j.problems}
	}
	return got.snapshot, rel, nil
}

func (r *Runner) catalogue(s Scenario) workload.Catalogue {
	seed := s.Workload.Seed
	if seed == "" {
		seed = r.Seed
	}
	return workload.Catalogue{Cards: s.Workload.Cards, Seed: seed}
}

// database makes the case's own: migrated and, for conveyor, with the catalogue
// imported, by the subject's own commands.
func (r *Runner) database(ctx context.Context, s Scenario) (*harness.Database, error) {
	if s.OwnServer() {
		if err := r.Rig.Server().Can(pg.ToRestart); err != nil { // then no second one can be had either
			return nil, &UnavailableError{Err: fmt.Errorf("it needs a server of its own: %w", err)}
		}
	}
	cfg := harness.DatabaseConfig{Key: "empty", OwnServer: s.OwnServer(), Build: func(context.Context, string) error { return nil }}
	if len(s.Command) == 0 {
		c := r.catalogue(s)
		dir, err := r.Store.Dir(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrEnvironment, err)
		}
		cfg.Key = "conveyor/" + r.Subject.Path + "/" + c.String()
		cfg.Build = func(ctx context.Context, url string) error { return r.prepare(ctx, url, dir) }
		if s.Workload.Redo {
			cfg.Key += "/done"
			cfg.Build = func(ctx context.Context, url string) error {
				return errors.Join(r.prepare(ctx, url, dir), r.work(ctx, url, dir))
			}
		}
	}
	db, err := r.Rig.NewDatabase(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: make the case's database: %w", ErrEnvironment, err)
	}
	return db, nil
}

func (r *Runner) prepare(ctx context.Context, url, dir string) error {
	for _, args := range [][]string{{"migrate"}, {"catalog", "import", dir}} {
		cmd := r.Subject.Command(ctx, args...)
		cmd.Env = append(cmd.Env, "DATABASE_URL="+url, faults.SeamEnv+"=")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w: %s", filepath.Base(r.Subject.Path), strings.Join(args, " "), err, out)
		}
	}
	return nil
}

func (r *Runner) caseDir(s Scenario, c Case, out *report.Case) (string, error) {
	name := c.Name
	if out.Iteration > 0 {
		name = fmt.Sprintf("%s.%d", c.Name, out.Iteration)
	}
	dir, err := r.Dir.Case(s.Name, name)
	if err != nil {
		return "", err
	}
	out.Dir, err = filepath.Rel(r.Dir.Path(), dir)
	return dir, err
}

// next returns a number that no other attempt of the run has.
func (r *Runner) next() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.serial++
	return r.serial
}
