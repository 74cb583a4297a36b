package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"deadwire/harness/event"
	"deadwire/harness/report"
	"deadwire/harness/rundir"
)

// showTimeline prints every event of one session, of each case that has it.
func showTimeline(out io.Writer, dir string, whole report.Run, session int) error {
	found := false
	for _, c := range whole.Cases {
		if !filepath.IsLocal(c.Dir) {
			continue // no path into the run's folder
		}
		events, err := rundir.ReadEvents(filepath.Join(dir, c.Dir))
		if err != nil {
			return err
		}
		about := eventsOf(events, session)
		if len(about) == 0 {
			continue
		}
		found = true
		fmt.Fprintf(out, "%s   session %d   seed %s   times in ms since the journal began\n", c.Name, session, whole.Seed)
		for _, e := range about {
			fmt.Fprintf(out, "%12.3f  %-7s %-9s %-18s %s\n", float64(e.At.Microseconds())/1000, report.Evidence([]int64{e.Seq}), e.Session.Place, e.Kind, report.Plain(detail(e)))
		}
		fmt.Fprintln(out)
	}
	if !found {
		return usageError("no case of %s has a session %d", filepath.Base(dir), session)
	}
	return nil
}

// eventsOf returns what concerns one session, in the order of time: both taps' views
// of it, the system calls on its socket, its backend's log, the processes that held
// it, and all faults.
func eventsOf(events []event.Event, session int) []event.Event {
	w := whoIs(events, event.SessionID{Place: event.Front, N: session})
	if !w.known {
		return nil
	}
	about := slices.DeleteFunc(slices.Clone(events), func(e event.Event) bool { return !w.concerns(e) })
	slices.SortStableFunc(about, func(a, b event.Event) int { return cmp.Compare(a.At, b.At) })
	return about
}

// parties are those that had to do with a session.
type parties struct {
	known     bool
	views     []event.SessionID
	inode     uint64 // of the subject's end of its socket
	backend   int
	processes []int
}

func whoIs(events []event.Event, front event.SessionID) parties {
	w := parties{views: []event.SessionID{front}}
	for _, e := range events {
		if e.Session != front {
			continue
		}
		w.known = true
		if e.Opened != nil {
			w.inode = e.Opened.Inode
			w.processes = append(w.processes, e.Opened.Opener)
		}
		if e.Holders != nil {
			w.processes = append(w.processes, e.Holders.PIDs...)
		}
		if e.Kind == event.SessionNamed {
			w.backend = e.Named.BackendPID
		}
	}
	for _, e := range events {
		if e.Kind == event.SessionNamed && e.Session.Place == event.Back && e.Named.BackendPID == w.backend {
			w.views = append(w.views, e.Session)
		}
	}
	return w
}

func (w parties) concerns(e event.Event) bool {
	switch {
	case !e.Session.IsZero():
		return slices.Contains(w.views, e.Session)
	case e.Call != nil:
		return w.inode != 0 && e.Call.Inode == w.inode
	case e.Log != nil:
		return w.backend != 0 && e.PID == w.backend
	case e.Process != nil:
		return slices.Contains(w.processes, e.PID)
	default:
		return e.Fault != nil || e.Kind == event.ServerChanged
	}
}

// detail says an event's facts in one line.
func detail(e event.Event) string {
	var words []string
	add := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" && text != "0" && text != "[]" {
			words = append(words, strings.TrimSpace(name+" "+text))
		}
	}
	add("pid", e.PID)
	switch {
	case e.Process != nil:
		add("", strings.Join(e.Process.Argv, " "))
		add("child of", e.Process.PPID)
		add("by", e.Process.Signal)
		if e.Process.Code != nil {
			words = append(words, fmt.Sprintf("exit code %d", *e.Process.Code))
		}
	case e.Call != nil:
		add("", e.Call.Name)
		add("of", e.Call.Type)
		add("descriptor", e.Call.FD)
		add("held by", e.Call.Holders)
		if e.Call.Blocked {
			words = append(words, "suppressed")
		}
	case e.Opened != nil:
		add("opened by", e.Opened.Opener)
	case e.Named != nil:
		add("backend", e.Named.BackendPID)
		add("", e.Named.ApplicationName)
	case e.Holders != nil:
		add("held by", e.Holders.PIDs)
	case e.Message != nil:
		words = append(words, messageWords(e.Message)...)
	default:
		words = append(words, rest(e)...)
	}
	return strings.Join(words, ", ")
}

func messageWords(m *event.Message) []string {
	words := []string{fmt.Sprintf("%s from the %s", m.Type, m.From)}
	for _, word := range []string{m.Verb, m.Label, m.Severity, m.SQLState} {
		if word != "" {
			words = append(words, word)
		}
	}
	if m.Tx != "" {
		words = append(words, "transaction state "+m.Tx)
	}
	if m.Dropped {
		words = append(words, "kept back by a fault")
	}
	return words
}

// rest says what ends, breaks and is written.
func rest(e event.Event) []string {
	switch {
	case e.Closing != nil:
		words := []string{fmt.Sprintf("%s from the %s, %s", e.Closing.Manner, e.Closing.From, e.Closing.State)}
		for _, word := range []string{e.Closing.SQLState, e.Closing.Text, e.Closing.Cause} {
			if word != "" {
				words = append(words, word)
			}
		}
		return words
	case e.Ended != nil:
		return []string{fmt.Sprintf("%d messages, of which the oldest %d are not kept", e.Ended.Messages, e.Ended.Lost)}
	case e.Fault != nil:
		return []string{strings.TrimSpace(e.Fault.ID + " " + e.Fault.Name + " " + e.Fault.Note)}
	case e.Log != nil:
		return []string{e.Log.Severity + ": " + e.Log.Text}
	case e.Step != nil:
		return []string{strings.TrimSpace(e.Step.Name + " " + e.Step.Note)}
	default:
		return nil
	}
}
