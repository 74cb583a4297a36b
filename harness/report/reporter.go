package report

import (
	"errors"
	"fmt"
	"sync"

	"deadwire/harness/rundir"
)

// Reporter is told how a run goes and shows it in one format. Calls come one
// at a time: Begin first, Done last.
type Reporter interface {
	Begin(Plan)
	CaseStarted(Name)
	CaseDone(Case)
	// Done returns what went wrong with reporting since Begin, such as a full disk.
	Done(Run) error
}

// Multi tells several reporters the same and is safe for concurrent use. A
// reporter that fails or panics is reported by Done and never costs the others
// a word. Everything is prepared once: passwords masked, lists never null.
type Multi struct {
	mu        sync.Mutex
	reporters []Reporter
	broken    []error
}

// NewMulti returns a Reporter that forwards to all of reporters.
func NewMulti(reporters ...Reporter) *Multi { return &Multi{reporters: reporters} }

// Begin implements Reporter.
func (m *Multi) Begin(p Plan) {
	m.each(func(r Reporter) error { r.Begin(p); return nil })
}

// CaseStarted implements Reporter.
func (m *Multi) CaseStarted(n Name) {
	m.each(func(r Reporter) error { r.CaseStarted(n); return nil })
}

// CaseDone implements Reporter.
func (m *Multi) CaseDone(c Case) {
	c = c.prepared()
	m.each(func(r Reporter) error { r.CaseDone(c); return nil })
}

// Done implements Reporter. The error joins those of all reporters.
func (m *Multi) Done(run Run) error {
	run = run.prepared()
	m.each(func(r Reporter) error { return r.Done(run) })
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.broken...)
}

func (m *Multi) each(tell func(Reporter) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.reporters {
		if err := guarded(r, tell); err != nil {
			m.broken = append(m.broken, err)
		}
	}
}

func guarded(r Reporter, tell func(Reporter) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("report by %T: panic: %v", r, cause)
		}
	}()
	return tell(r)
}

// File writes the JSON file of a run when it is done.
type File struct{ path string }

// NewFile returns a reporter that writes the run to path, which appears whole
// or not at all.
func NewFile(path string) *File { return &File{path: path} }

// Begin implements Reporter.
func (*File) Begin(Plan) {}

// CaseStarted implements Reporter.
func (*File) CaseStarted(Name) {}

// CaseDone implements Reporter.
func (*File) CaseDone(Case) {}

// Done implements Reporter.
func (f *File) Done(run Run) error { return WriteRun(f.path, run) }

// WriteRun writes run as schema deadwire.run/1. Errors are *rundir.Error.
func WriteRun(path string, run Run) error {
	run.Schema = RunSchema
	return rundir.WriteJSON(path, run.prepared())
}

// WriteExec writes e as schema deadwire.exec/1. Errors are *rundir.Error.
func WriteExec(path string, e Exec) error {
	e.Schema = ExecSchema
	return rundir.WriteJSON(path, e.prepared())
}
