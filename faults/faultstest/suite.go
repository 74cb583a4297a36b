package faultstest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/faults"
	"deadwire/harness"
	"deadwire/harness/event"
	"deadwire/harness/subject"
)

// Patience is how long a fact that must come is waited for.
const Patience = 60 * time.Second

// Play shows one fault at work.
type Play struct {
	Fault     faults.Fault
	OwnServer bool // the fault stops, crashes or fills the server
	// Before prepares what the fault acts on; may be nil. A fault that is armed
	// before the subject starts needs nothing.
	Before func(*Stage)
	// Meet is the client that meets the fault. It must not ask the fault itself
	// whether it acted: the client's own error, the server, the kernel say so.
	Meet func(*Stage)
	// After checks what the fault had changed once it is healed, beside what
	// holds for all: a new session works. May be nil.
	After func(*Stage)
}

// Run carries a play out. The rig is shared by all plays.
func Run(t *testing.T, rig *harness.Rig, p Play) {
	t.Helper()
	refuses(t, p.Fault)
	ctx, cancel := context.WithTimeout(context.Background(), 5*Patience)
	t.Cleanup(cancel)
	db, err := rig.NewDatabase(ctx, harness.DatabaseConfig{
		Key: "empty", OwnServer: p.OwnServer, Build: func(context.Context, string) error { return nil },
	})
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, db.Close(context.WithoutCancel(ctx))) })
	t.Run("acts and heals", func(t *testing.T) { acts(newStage(ctx, t, rig, db, p), p) })
	t.Run("heals after cancel", func(t *testing.T) { healsAfterCancel(newStage(ctx, t, rig, db, p), p) })
}

// refuses checks that a fault with nothing to act on says why.
func refuses(t *testing.T, f faults.Fault) {
	t.Helper()
	empty := faults.Target{ID: "f1", Journal: event.NewJournal(nil, 0)}
	err := f.Available(empty)
	assert.Assert(t, err != nil && err.Error() != "", "%s acts on nothing", f.Name())
	_, err = faults.Inject(context.Background(), f, empty)
	assert.ErrorContains(t, err, f.Name()+" is not available")
	assert.Equal(t, len(empty.Journal.Events()), 0, "what was refused was not injected")
}

func acts(s *Stage, p Play) {
	if p.Before != nil {
		p.Before(s)
	}
	heal := s.inject(s.Ctx)
	p.Meet(s)
	s.AwaitBite()
	assert.NilError(s.T, heal(s.Ctx))
	s.Works()
	if p.After != nil {
		p.After(s)
	}
	assert.NilError(s.T, heal(s.Ctx), "a second heal does nothing")
	s.Works()
	assert.Equal(s.T, s.count(event.FaultInjected), 1)
	assert.Equal(s.T, s.count(event.FaultHealed), 1)
}

func healsAfterCancel(s *Stage, p Play) {
	if p.Before != nil {
		p.Before(s)
	}
	ctx, cancel := context.WithCancel(s.Ctx)
	heal := s.inject(ctx)
	cancel()
	assert.NilError(s.T, heal(ctx), "heal on a context that has ended")
	s.Works()
	if p.After != nil {
		p.After(s)
	}
}

// Stage is one lane with everything that a play needs. It is taken down with
// the test.
type Stage struct {
	T       *testing.T
	Ctx     context.Context
	Lane    *harness.Lane
	Target  faults.Target
	Subject *subject.Instance // nil before Start
	Kept    any               // what Before leaves for Meet

	fault   faults.Fault
	seam    faults.Seam
	heal    faults.Heal
	running atomic.Pointer[subject.Instance] // Subject, for faults that ask from elsewhere
}

func newStage(ctx context.Context, t *testing.T, rig *harness.Rig, db *harness.Database, p Play) *Stage {
	t.Helper()
	lane, err := rig.NewLane(ctx, harness.LaneConfig{Name: t.Name(), Database: db})
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, lane.Close(context.WithoutCancel(ctx))) })
	s := &Stage{T: t, Ctx: ctx, Lane: lane, fault: p.Fault}
	s.Target = faults.Target{
		ID: "f1", Server: db.Server(), Front: lane.Front, Back: lane.Back, Link: lane.Link, Journal: lane.Journal,
		Seam: &s.seam, Admin: db.Admin, Database: db.Name(), ServerIsOurs: p.OwnServer,
		Subject: s.running.Load,
	}
	s.serveImages()
	t.Cleanup(s.end)
	return s
}

// end heals and ends what a failed play left.
func (s *Stage) end() {
	ctx := context.WithoutCancel(s.Ctx)
	if s.heal != nil {
		assert.Check(s.T, s.heal(ctx))
	}
	s.Stop()
}

func (s *Stage) inject(ctx context.Context) faults.Heal {
	s.T.Helper()
	if err := s.fault.Available(s.Target); err != nil {
		s.T.Skip("not here: ", err)
	}
	heal, err := faults.Inject(ctx, s.fault, s.Target)
	s.heal = heal
	assert.NilError(s.T, err)
	return heal
}

// AwaitBite waits until the fault was seen to act, by its own record or by the
// marker line of a subject that was told to misbehave, and returns the event.
func (s *Stage) AwaitBite() event.Event {
	s.T.Helper()
	return s.Await("a bite", func(e event.Event) bool {
		if e.Kind == event.SubjectOutput {
			m, ok := faults.ParseMarker(e.Output.Text)
			return ok && m.ID == s.Target.ID && !standsFirst(m.Do)
		}
		return e.Kind == event.FaultBit && e.Fault.ID == s.Target.ID
	})
}

// standsFirst reports whether an act only makes the subject stand still; what is
// done to it then is recorded by the fault.
func standsFirst(do string) bool { return do == "stop" || do == "allocate" }

// Await returns the first event that matches, and fails the test if none comes.
func (s *Stage) Await(what string, match func(event.Event) bool) event.Event {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.Ctx, Patience)
	defer cancel()
	e, err := s.Lane.Journal.Await(ctx, 0, what, match)
	assert.NilError(s.T, err)
	return e
}

func (s *Stage) count(kind event.Kind) int {
	n := 0
	for _, e := range s.Lane.Journal.Events() {
		if e.Kind == kind {
			n++
		}
	}
	return n
}
