package faults

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"deadwire/harness/event"
	"deadwire/harness/tap"
	"deadwire/harness/wait"
)

// Trigger says when a fault is injected. Exactly one field is set; the zero
// Trigger means at once.
type Trigger struct {
	Output  string        `json:"output,omitempty" doc:"regular expression that a line of the subject's output matches"`
	Message *MessageMatch `json:"message,omitempty" doc:"a protocol message was seen at the front tap"`
	Blocked string        `json:"blocked,omitempty" doc:"role of a session that waits for a lock on the server"`
	Event   *EventCount   `json:"event,omitempty" doc:"that many events of a kind have been recorded"`
	Journal *JournalMatch `json:"journal,omitempty" doc:"that many events of such a description have been recorded"`
	AfterMS int           `json:"after_ms,omitempty" doc:"milliseconds since the subject started"`
}

// MessageMatch describes protocol messages. Empty fields match all.
type MessageMatch struct {
	Session string     `json:"session,omitempty" doc:"role of the session: last part of its application_name, wildcards allowed"`
	From    event.Side `json:"from,omitempty" enum:"frontend,backend" doc:"which side sent it"`
	Type    string     `json:"type,omitempty" doc:"protocol name of the message: Query, Parse, Bind, CommandComplete, …"`
	Verb    string     `json:"verb,omitempty" doc:"first word of the statement, or of the command tag: COMMIT, INSERT, …"`
	Label   string     `json:"label,omitempty" doc:"text of the statement's leading comment, without its conveyor: prefix"`
}

// EventCount is a number of events of one kind.
type EventCount struct {
	Kind  event.Kind `json:"kind" doc:"kind of the event, such as session.opened"`
	Count int        `json:"count" doc:"how many"`
}

// IsZero reports whether the trigger means at once.
func (t Trigger) IsZero() bool { return t == Trigger{} }

// Matches reports whether m, on a session of that application name, is meant.
func (w MessageMatch) Matches(applicationName string, m event.Message) bool {
	return RoleMatches(w.Session, applicationName) &&
		(w.From == "" || w.From == m.From) &&
		(w.Type == "" || w.Type == m.Type) &&
		(w.Verb == "" || w.Verb == m.Verb) &&
		(w.Label == "" || w.Label == m.Label || "conveyor:"+w.Label == m.Label)
}

// On is Matches for a rule of a tap.
func (w MessageMatch) On(s *tap.Session, m event.Message) bool {
	return w.Matches(s.ApplicationName(), m)
}

// IsZero reports whether it describes nothing in particular.
func (w MessageMatch) IsZero() bool { return w == MessageMatch{} }

// Wait returns when the trigger has fired. For a Message trigger the caller
// passes the channel on which its tap rule reports.
func (t Trigger) Wait(ctx context.Context, target Target, message <-chan struct{}) error {
	switch {
	case t.IsZero():
		return nil
	case t.Message != nil:
		select {
		case <-message:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("wait for message %+v: %w", *t.Message, context.Cause(ctx))
		}
	case t.Output != "":
		return t.waitOutput(ctx, target)
	case t.Blocked != "":
		return waitBlocked(ctx, target, t.Blocked)
	case t.Event != nil:
		return t.waitEvents(ctx, target)
	case t.Journal != nil:
		return t.Journal.wait(ctx, target.Journal)
	default:
		select {
		case <-time.After(time.Duration(t.AfterMS) * time.Millisecond):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (t Trigger) waitOutput(ctx context.Context, target Target) error {
	pattern, err := regexp.Compile(t.Output)
	if err != nil {
		return fmt.Errorf("trigger output: %w", err)
	}
	_, err = target.Journal.Await(ctx, 0, fmt.Sprintf("output that matches %q", t.Output), func(e event.Event) bool {
		return e.Kind == event.SubjectOutput && pattern.MatchString(e.Output.Text)
	})
	return err
}

func (t Trigger) waitEvents(ctx context.Context, target Target) error {
	seen := 0
	_, err := target.Journal.Await(ctx, 0, fmt.Sprintf("%d events %s", t.Event.Count, t.Event.Kind), func(e event.Event) bool {
		if e.Kind == t.Event.Kind {
			seen++
		}
		return seen >= t.Event.Count
	})
	return err
}

// waitBlocked waits until a session of that role waits for a lock.
func waitBlocked(ctx context.Context, target Target, role string) error {
	admin, err := target.Admin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close(context.WithoutCancel(ctx)) }()
	return wait.For(ctx, "session "+role+" to wait for a lock", func(ctx context.Context) wait.Answer {
		for _, s := range target.Sessions(role) {
			var blocked bool
			err := admin.QueryRow(ctx, `select coalesce(bool_or(wait_event_type = 'Lock'), false) from pg_stat_activity where pid = $1`, s.BackendPID()).Scan(&blocked)
			if err != nil {
				return wait.Never(err)
			}
			if blocked {
				return wait.Done()
			}
		}
		return wait.NotYet("not waiting")
	})
}
