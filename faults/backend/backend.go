// Package backend holds the faults of the server: ending or cancelling one
// backend, crashing it, restarting the server, holding a lock, time limits, a
// read-only database, a want of connection slots. They act only on backends whose
// session came through the case's own taps, or on a server that the case has to
// itself.
package backend

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"deadwire/faults"
	"deadwire/harness/event"
	"deadwire/harness/pg"
	"deadwire/harness/tap"
)

// Terminate ends sessions by pg_terminate_backend, as an administrator does.
// The client receives FATAL 57P01 at once, also when it is idle.
type Terminate struct {
	Session string `json:"session" doc:"role of the sessions: last part of the application_name, wildcards allowed"`
}

// Name implements faults.Fault.
func (Terminate) Name() string { return "backend.terminate" }

// Available implements faults.Fault.
func (Terminate) Available(t faults.Target) error {
	return reachable(t)
}

// Expects implements faults.Expecter.
func (f Terminate) Expects() []faults.Expectation {
	return []faults.Expectation{{Rule: "backend.admin-terminate", Role: f.Session}}
}

// Inject implements faults.Fault.
func (f Terminate) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	return noHeal, toEach(ctx, t, f.Session, "pg_terminate_backend", func(s *tap.Session) error {
		if err := awaitClosing(ctx, t, s.ID()); err != nil {
			return err
		}
		t.Bit(rec, f, s.ID(), 0, fmt.Sprintf("backend %d", s.BackendPID()))
		return nil
	})
}

// toEach calls one of the server's signalling functions for each session of that
// role, and sent for those that were signalled.
func toEach(ctx context.Context, t faults.Target, role, function string, sent func(*tap.Session) error) error {
	admin, err := t.Admin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close(context.WithoutCancel(ctx)) }()
	for _, s := range t.Sessions(role) {
		// The second condition keeps a recycled pid of a stranger safe.
		var done bool
		err := admin.QueryRow(ctx, `select coalesce((select `+function+`(pid) from pg_stat_activity where pid = $1 and datname = $2), false)`,
			s.BackendPID(), t.Database).Scan(&done)
		if err != nil {
			return err
		}
		if !done {
			continue
		}
		if err := sent(s); err != nil {
			return err
		}
	}
	return nil
}

// Cancel ends the running statement of sessions by pg_cancel_backend. The client
// is told ERROR 57014, and the session lives on. An idle session takes no notice.
type Cancel struct {
	Session string `json:"session" doc:"role of the sessions: last part of the application_name, wildcards allowed"`
}

// Name implements faults.Fault.
func (Cancel) Name() string { return "backend.cancel" }

// Available implements faults.Fault.
func (Cancel) Available(t faults.Target) error { return reachable(t) }

// Inject implements faults.Fault. It bites when the server says that it has
// cancelled a statement.
func (f Cancel) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	unwatch := biteOnError(t, rec, f, "57014")
	heal := faults.HealOnce(func(context.Context) error { unwatch(); return nil })
	return heal, toEach(ctx, t, f.Session, "pg_cancel_backend", func(*tap.Session) error { return nil })
}

// awaitClosing waits until the tap has seen the server's last words: that the
// signal was sent says nothing about when it acts (families, section 4.4).
func awaitClosing(ctx context.Context, t faults.Target, id event.SessionID) error {
	_, err := t.Journal.Await(ctx, 0, "session "+id.String()+" to begin to end", func(e event.Event) bool {
		return e.Kind == event.SessionClosing && e.Session == id
	})
	return err
}

// NeedsServer implements faults.ServerOwner.
func (Crash) NeedsServer() bool { return true }

// NeedsServer implements faults.ServerOwner.
func (Restart) NeedsServer() bool { return true }

// Crash kills one backend of the case's own server with SIGKILL, so that
// PostgreSQL ends every session and recovers.
type Crash struct {
	Session string `json:"session" doc:"role of the session whose server process is killed"`
}

// Name implements faults.Fault.
func (Crash) Name() string { return "backend.crash" }

// Available implements faults.Fault.
func (Crash) Available(t faults.Target) error { return ownServer(t) }

// Expects implements faults.Expecter.
func (Crash) Expects() []faults.Expectation {
	return []faults.Expectation{{Rule: "backend.crash-restart"}, {Rule: "server.refused"}}
}

// Inject implements faults.Fault. It returns once the server takes sessions again.
func (f Crash) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	victims := t.Sessions(f.Session)
	if len(victims) == 0 {
		return noHeal, fmt.Errorf("no live session has the role %q", f.Session)
	}
	pid := victims[0].BackendPID()
	rec.Record(event.Event{Kind: event.ServerChanged, PID: pid, Step: &event.Step{Name: "crash", Note: "SIGKILL to one backend"}})
	if err := t.Server.CrashBackend(ctx, pid); err != nil {
		return noHeal, err
	}
	t.Bit(rec, f, victims[0].ID(), 0, fmt.Sprintf("backend %d", pid))
	return noHeal, nil
}

// Restart stops and starts the case's own server.
type Restart struct {
	Mode string `json:"mode" enum:"fast,immediate" doc:"fast: sessions get 57P01; immediate: as a crash, with recovery at the start"`
}

// Name implements faults.Fault.
func (Restart) Name() string { return "backend.restart" }

// Available implements faults.Fault.
func (Restart) Available(t faults.Target) error { return ownServer(t) }

// Expects implements faults.Expecter.
func (Restart) Expects() []faults.Expectation {
	return []faults.Expectation{{Rule: "backend.admin-terminate"}, {Rule: "backend.crash-restart"}, {Rule: "server.refused"}}
}

// Inject implements faults.Fault.
func (f Restart) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	open := t.Sessions("")
	if len(open) == 0 {
		return noHeal, errors.New("no session is open: a restart would touch nothing")
	}
	rec.Record(event.Event{Kind: event.ServerChanged, Step: &event.Step{Name: "restart", Note: f.Mode}})
	if err := t.Server.Restart(ctx, pg.Mode(f.Mode)); err != nil {
		return noHeal, err
	}
	for _, s := range open {
		t.Bit(rec, f, s.ID(), 0, f.Mode)
	}
	return noHeal, nil
}

// Lock holds a table in ACCESS EXCLUSIVE mode, so that the next statement that
// touches it waits in the server. Healing rolls back.
type Lock struct {
	Table string `json:"table" doc:"name of the table"`
}

// Name implements faults.Fault.
func (Lock) Name() string { return "backend.lock" }

// Available implements faults.Fault.
func (Lock) Available(t faults.Target) error { return reachable(t) }

// Inject implements faults.Fault.
func (f Lock) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	admin, err := t.Admin(ctx)
	if err != nil {
		return nil, err
	}
	heal := faults.HealOnce(func(ctx context.Context) error { return admin.Close(ctx) })
	if _, err := admin.Exec(ctx, "begin"); err != nil {
		return heal, err
	}
	if _, err := admin.Exec(ctx, "lock table "+pgx.Identifier{f.Table}.Sanitize()+" in access exclusive mode"); err != nil {
		return heal, err
	}
	t.Bit(rec, f, event.SessionID{}, 0, "holds "+f.Table)
	return heal, nil
}

func ownServer(t faults.Target) error {
	switch {
	case !t.ServerIsOurs || t.Server == nil || t.Server.PID() == 0:
		return faults.ErrNeedsServer
	default:
		return nil
	}
}

// reachable returns nil, or why nothing can be asked of the server about the
// subject's sessions.
func reachable(t faults.Target) error {
	if t.Admin == nil || t.Server == nil {
		return errors.New("needs a server that deadwire can reach by a session of its own")
	}
	return t.HasTap()
}

func noHeal(context.Context) error { return nil }
