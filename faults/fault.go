package faults

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"deadwire/harness/event"
	"deadwire/harness/pg"
	"deadwire/harness/proxy"
	"deadwire/harness/subject"
	"deadwire/harness/tap"
)

// Fault is something that can be broken and mended again. Implementations are
// value structs whose JSON fields are their parameters.
type Fault interface {
	// Name is the fault's name in scenarios and reports, such as network.cut.
	Name() string
	// Available returns nil, or why the fault cannot act on that target; the
	// text becomes the reason of a skip.
	Available(Target) error
	// Inject breaks. The returned Heal is non-nil whenever anything changed,
	// also beside an error.
	Inject(context.Context, Target, event.Recorder) (Heal, error)
}

// Heal takes a fault back. It is repeatable: once it has succeeded it does
// nothing. It is always called, on a context of its own.
type Heal func(context.Context) error

// Armer is a fault that must be set before the subject starts, because it acts
// inside the subject or at its start.
type Armer interface {
	// Arm reports that Inject belongs before the subject's start.
	Arm() bool
}

// Expecter is a fault that declares the endings which it will cause.
type Expecter interface {
	Expects() []Expectation
}

// ServerOwner is a fault that can stop or harm the server as a whole, so that the
// case needs one to itself.
type ServerOwner interface {
	NeedsServer() bool
}

// Expectation declares endings by rule and by the role of the session ("" for any).
type Expectation struct {
	Rule string
	Role string
}

// Target is what a fault may touch: one case's own taps, link, subject and
// database, and the server behind them.
type Target struct {
	ID      string // of this fault in its case, such as f1; recorded as the cause of what it does
	Server  pg.Server
	Front   *tap.Tap
	Back    *tap.Tap
	Link    *proxy.Link
	Journal *event.Journal
	Seam    *Seam // what the subject is told to do to itself; read when it starts
	// Subject returns the running subject, nil before it started.
	Subject func() *subject.Instance
	// Admin returns a session to the case's own database that bypasses the taps.
	Admin func(context.Context) (*pgx.Conn, error)
	// Database is the name of the case's own database.
	Database string
	// Own records a thing that must not outlive the run; may be nil.
	Own func(kind, value string) error
	// Source is the HTTP server that the subject fetches from; nil when it has none of ours.
	Source Source
	// ServerIsOurs: the case has the server to itself and may stop or crash it.
	ServerIsOurs bool
}

// errors of Available
var (
	ErrNeedsSubject = errors.New("needs a running subject")
	ErrNeedsTap     = errors.New("needs the taps: the subject is not run through them")
	ErrNeedsLink    = errors.New("needs Toxiproxy: the subject is not run through it (exec: watch mode)")
	ErrNeedsSource  = errors.New("needs the image source that deadwire serves to conveyor")
	ErrNeedsServer  = errors.New("needs a server of its own: set `server: own`, with a provider that starts it")
)

// HasTap returns nil, or that there is no tap to act on.
func (t Target) HasTap() error {
	if t.Front == nil {
		return ErrNeedsTap
	}
	return nil
}

// Running returns nil, or that there is no subject yet.
func (t Target) Running() error {
	if t.Subject == nil || t.Subject() == nil {
		return ErrNeedsSubject
	}
	return nil
}

// Sessions returns the live sessions at the front tap whose role matches the
// pattern: the last part of the application name, with path.Match's wildcards;
// "" matches all.
func (t Target) Sessions(role string) []*tap.Session {
	var out []*tap.Session
	for _, s := range t.Front.Sessions() {
		if RoleMatches(role, s.ApplicationName()) {
			out = append(out, s)
		}
	}
	return out
}

// RoleMatches reports whether an application name has the role that the
// pattern asks for.
func RoleMatches(pattern, applicationName string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, path.Base(applicationName))
	return err == nil && ok
}

// Bit records that the fault was seen to act, on a session or process or both.
func (t Target) Bit(rec event.Recorder, f Fault, session event.SessionID, pid int, note string) {
	rec.Record(event.Event{Kind: event.FaultBit, Session: session, PID: pid, Fault: &event.Fault{ID: t.ID, Name: f.Name(), Note: note}})
}

// HealOnce makes a heal repeatable: after a success it does nothing.
func HealOnce(heal Heal) Heal {
	var mu sync.Mutex
	done := false
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if done {
			return nil
		}
		err := heal(ctx)
		done = err == nil
		return err
	}
}

// healMax bounds a heal: it is given a fresh context, since the run's own may
// have been cancelled.
const healMax = 20 * time.Second

// Inject breaks f on t, records it, and returns a Heal that records too. It is
// the only caller of Fault.Inject.
func Inject(ctx context.Context, f Fault, t Target) (Heal, error) {
	if err := f.Available(t); err != nil {
		return nil, fmt.Errorf("fault %s is not available: %w", f.Name(), err)
	}
	t.Journal.Record(event.Event{Kind: event.FaultInjected, Fault: &event.Fault{ID: t.ID, Name: f.Name(), Spec: specOf(f)}})
	heal, err := f.Inject(ctx, t, t.Journal)
	if err != nil {
		err = fmt.Errorf("inject %s: %w", f.Name(), err)
	}
	healed := false
	return func(ctx context.Context) error {
		if healed {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healMax)
		defer cancel()
		if heal != nil {
			if err := heal(ctx); err != nil {
				return fmt.Errorf("heal %s: %w", f.Name(), err)
			}
		}
		healed = true
		t.Journal.Record(event.Event{Kind: event.FaultHealed, Fault: &event.Fault{ID: t.ID, Name: f.Name()}})
		return nil
	}, err
}
