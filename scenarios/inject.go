package scenarios

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"deadwire/faults"
	"deadwire/harness/event"
	"deadwire/harness/subject"
	"deadwire/harness/tap"
	"deadwire/harness/wait"
	"deadwire/scenarios/oracle"
)

// injectMax bounds an injection: a restart of the server takes longest.
const injectMax = 30 * time.Second

// UnavailableError says that a fault cannot act here; the case is skipped.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *UnavailableError) Unwrap() error { return e.Err }

// injection is one fault of an attempt, from before it is injected until it is
// healed.
type injection struct {
	step   FaultStep
	target faults.Target
	state  *injectionState
}

type injectionState struct {
	mu     sync.Mutex
	heal   faults.Heal
	err    error
	done   chan struct{} // closed when injecting is over; nil before it began
	cancel func()        // ends the wait for the trigger; nil like done
	remove func()        // of the rule that watches for the trigger's message
}

// early reports whether the fault is injected before the subject starts.
func (f FaultStep) early() bool {
	armer, ok := f.Fault.(faults.Armer)
	return f.When.IsZero() && (!ok || armer.Arm()) || ok && armer.Arm()
}

func (a *attempt) target(n int) faults.Target {
	t := faults.Target{
		ID: fmt.Sprintf("f%d", n+1), Server: a.database.Server(), Front: a.lane.Front, Back: a.lane.Back, Link: a.lane.Link,
		Journal: a.lane.Journal, Admin: a.database.Admin, Database: a.database.Name(), ServerIsOurs: a.database.OwnServer(),
		Subject: a.running.Load,
	}
	if owner := a.runner.Rig.Owner(); owner != nil {
		t.Own = owner.Own
	}
	if a.runner.Subject.Seam && len(a.scenario.Command) == 0 {
		t.Seam = &a.seam
	}
	if a.images != nil {
		t.Source = a.images
	}
	return t
}

// arm injects what must be set before the subject starts, and sets up the rules
// that watch for the messages of triggers.
func (a *attempt) arm(ctx context.Context) error {
	for n, step := range a.faults {
		i := injection{step: step, target: a.target(n), state: &injectionState{remove: func() {}}}
		a.injected = append(a.injected, i)
		if !step.early() {
			continue
		}
		heal, err := faults.Inject(ctx, step.Fault, i.target)
		i.state.heal = heal
		if err != nil {
			return &UnavailableError{Err: err}
		}
	}
	return nil
}

// spring starts waiting for the triggers of the other faults.
func (a *attempt) spring(ctx context.Context) {
	for _, i := range a.injected {
		if i.step.early() {
			continue
		}
		i.state.done = make(chan struct{})
		waiting, cancel := context.WithCancel(ctx)
		i.state.cancel = cancel
		go i.await(waiting, i.watch())
	}
}

// watch returns a channel that is closed when the trigger's message passes. The
// rule never acts: it only looks.
func (i injection) watch() <-chan struct{} {
	want := i.step.When.Message
	if want == nil {
		return nil
	}
	seen := make(chan struct{})
	var once sync.Once
	i.state.remove = i.target.Front.AddRule(tap.Rule{
		Match: func(s *tap.Session, m event.Message) bool {
			if want.Matches(s.ApplicationName(), m) {
				once.Do(func() { close(seen) })
			}
			return false
		},
		Do: tap.Drop{},
	})
	return seen
}

func (i injection) await(ctx context.Context, message <-chan struct{}) {
	defer close(i.state.done)
	err := i.step.When.Wait(ctx, i.target, message)
	var heal faults.Heal
	if err == nil {
		// Once begun it is finished: half a restart would leave no server behind.
		acting, cancel := context.WithTimeout(context.WithoutCancel(ctx), injectMax)
		defer cancel()
		heal, err = faults.Inject(acting, i.step.Fault, i.target)
	}
	i.state.mu.Lock()
	defer i.state.mu.Unlock()
	i.state.heal, i.state.err = heal, err
}

// heal takes back every fault, the last one first. Faults that are still being
// injected are waited for.
func (a *attempt) heal(ctx context.Context) error {
	var errs []error
	for _, i := range slices.Backward(a.injected) {
		errs = append(errs, i.heal(ctx))
	}
	return errors.Join(errs...)
}

func (i injection) heal(ctx context.Context) error {
	i.state.remove()
	if i.state.done != nil {
		i.state.cancel() // one whose trigger has not come by now stays away
		<-i.state.done
	}
	i.state.mu.Lock()
	defer i.state.mu.Unlock()
	if i.state.heal == nil {
		return nil
	}
	return i.state.heal(ctx)
}

// markBites records the bites that the subject itself reported by marker lines.
func (a *attempt) markBites() {
	for _, e := range a.lane.Journal.Events() {
		if e.Kind != event.SubjectOutput {
			continue
		}
		m, ok := faults.ParseMarker(e.Output.Text)
		if !ok {
			continue
		}
		for _, i := range a.injected {
			if i.target.ID == m.ID {
				i.target.Bit(a.lane.Journal, i.step.Fault, event.SessionID{}, m.PID, m.Do)
			}
		}
	}
}

// followUp does the case's steps after the subject's first process has ended.
func (a *attempt) followUp(ctx context.Context) error {
	for _, step := range a.after {
		bounded, cancel := context.WithTimeout(ctx, settleMax)
		err := a.step(bounded, step)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *attempt) step(ctx context.Context, step Step) error {
	switch {
	case step.Locks != "":
		return a.awaitLocks(ctx, step.Locks)
	case step.Heal != "":
		for _, i := range a.injected {
			if i.step.Fault.Name() == step.Heal {
				return i.heal(ctx)
			}
		}
		return fmt.Errorf("heal: no fault %q in this case", step.Heal)
	case step.Closed != "":
		return a.awaitClosed(ctx, step.Closed)
	default:
		return a.endRest()
	}
}

// awaitClosed waits until the client's end of a session's connection has closed
// as the server sees it.
func (a *attempt) awaitClosed(ctx context.Context, role string) error {
	backend := a.backendOf(role)
	var id event.SessionID
	_, err := a.lane.Journal.Await(ctx, 0, "the server's side of session "+role+" to be closed", func(e event.Event) bool {
		if e.Kind == event.SessionNamed && e.Session.Place == event.Back && e.Named.BackendPID == backend {
			id = e.Session
		}
		return e.Kind == event.SessionClosing && e.Session == id && e.Closing.From == event.Frontend
	})
	return err
}

// awaitLocks waits until the subject's advisory locks are free, or until only
// the coordinator's are left: the slot's, whose holder died in the same moment,
// shows that the server has noticed the death.
func (a *attempt) awaitLocks(ctx context.Context, want string) error {
	admin, err := a.database.Admin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close(context.WithoutCancel(ctx)) }()
	coordinator := a.backendOf("coordinator")
	err = wait.For(ctx, "advisory locks to be "+want, func(ctx context.Context) wait.Answer {
		var s oracle.Snapshot
		if err := oracle.Residue(ctx, admin, &s); err != nil {
			return wait.Never(err)
		}
		return judgeLocks(s.Locks, coordinator, want)
	})
	note := "as awaited"
	if err != nil {
		note = err.Error()
	}
	a.lane.Journal.Record(event.Event{Kind: event.DatabaseFact, PID: coordinator, Step: &event.Step{Name: "locks " + want, Note: note}})
	return nil
}

func judgeLocks(locks []oracle.Lock, coordinator int, want string) wait.Answer {
	kept := 0
	for _, l := range locks {
		if l.PID == coordinator {
			kept++
		}
	}
	switch {
	case want == "free" && len(locks) == 0, want == "held" && kept > 0 && kept == len(locks):
		return wait.Done()
	case want == "held" && kept == 0:
		return wait.Never(errors.New("the coordinator's lock is gone"))
	default:
		return wait.NotYet("%d locks are held", len(locks))
	}
}

func (a *attempt) backendOf(role string) int {
	for _, e := range a.lane.Journal.Events() {
		if e.Kind == event.SessionNamed && e.Session.Place == event.Front && faults.RoleMatches(role, e.Named.ApplicationName) {
			return e.Named.BackendPID
		}
	}
	return 0
}

// endRest asks every process that is left of the subject to end.
func (a *attempt) endRest() error {
	var errs []error
	for _, i := range a.instances() {
		for _, pid := range i.PIDs() {
			if err := i.SignalPID(pid, syscall.SIGTERM); err != nil && !errors.Is(err, subject.ErrNotOurs) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
