package faults

import (
	"context"
	"fmt"
	"regexp"

	"deadwire/harness/event"
)

// JournalMatch is a predicate over the journal: it holds once so many events
// have been recorded that fit the description. Empty fields match all.
type JournalMatch struct {
	Kind     event.Kind   `json:"kind" doc:"kind of the event, such as session.closing"`
	Session  string       `json:"session,omitempty" doc:"role of its session at the front tap, wildcards allowed"`
	Manner   event.Manner `json:"manner,omitempty" doc:"of a session.closing: terminate, fin, rst, fatal, …"`
	SQLState string       `json:"sqlstate,omitempty" doc:"of a session.closing or server.logged"`
	Fault    string       `json:"fault,omitempty" doc:"name of the fault of a fault.injected, fault.bit or fault.healed"`
	Text     string       `json:"text,omitempty" doc:"regular expression for a log line, an output line or a closing's words"`
	Count    int          `json:"count,omitempty" doc:"how many such events; default 1"`
}

func (m JournalMatch) wait(ctx context.Context, journal *event.Journal) error {
	holds, err := m.holds()
	if err != nil {
		return fmt.Errorf("trigger journal: %w", err)
	}
	_, err = journal.Await(ctx, 0, fmt.Sprintf("%d events %s as described", max(m.Count, 1), m.Kind), holds)
	return err
}

// holds returns a function that is told each event in order, and says whether
// the predicate holds with it.
func (m JournalMatch) holds() (func(event.Event) bool, error) {
	text, err := regexp.Compile(m.Text)
	if err != nil {
		return nil, err
	}
	roles := map[event.SessionID]string{}
	seen := 0
	return func(e event.Event) bool {
		if e.Named != nil {
			roles[e.Session] = e.Named.ApplicationName
		}
		if e.Kind == m.Kind && m.onSession(e, roles) && m.fits(e) && text.MatchString(words(e)) {
			seen++
		}
		return seen >= max(m.Count, 1)
	}, nil
}

func (m JournalMatch) onSession(e event.Event, roles map[event.SessionID]string) bool {
	return m.Session == "" || e.Session.Place == event.Front && RoleMatches(m.Session, roles[e.Session])
}

func (m JournalMatch) fits(e event.Event) bool {
	var manner event.Manner
	var sqlstate, fault string
	switch {
	case e.Closing != nil:
		manner, sqlstate = e.Closing.Manner, e.Closing.SQLState
	case e.Log != nil:
		sqlstate = e.Log.SQLState
	case e.Fault != nil:
		fault = e.Fault.Name
	}
	return (m.Manner == "" || m.Manner == manner) && (m.SQLState == "" || m.SQLState == sqlstate) && (m.Fault == "" || m.Fault == fault)
}

// words returns what an event says in words.
func words(e event.Event) string {
	switch {
	case e.Log != nil:
		return e.Log.Text
	case e.Output != nil:
		return e.Output.Text
	case e.Closing != nil:
		return e.Closing.Text
	default:
		return ""
	}
}
