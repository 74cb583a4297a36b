package diagnose_test

import (
	"time"

	"deadwire/harness/event"
)

// pids of journals that are made by hand
const (
	opener  = 10
	child   = 20
	sibling = 21
	// backendPID of session n is backendBase + n.
	backendBase = 500
)

// journal makes events by hand, in order, a millisecond apart.
type journal struct {
	events []event.Event
	now    time.Duration
}

func (j *journal) add(e event.Event) *journal {
	j.now += time.Millisecond
	e.Seq, e.At = int64(len(j.events)+1), j.now
	j.events = append(j.events, e)
	return j
}

// later lets time pass.
func (j *journal) later(d time.Duration) *journal {
	j.now += d
	return j
}

func front(n int) event.SessionID { return event.SessionID{Place: event.Front, N: n} }
func back(n int) event.SessionID  { return event.SessionID{Place: event.Back, N: n} }

// family starts the opener, then session 1 between both taps, then its children.
func family(children ...int) *journal {
	j := &journal{}
	j.started(opener, 1).open(1, opener)
	for _, pid := range children {
		j.started(pid, opener)
	}
	return j
}

func (j *journal) started(pid, ppid int) *journal {
	return j.add(event.Event{Kind: event.ProcessStarted, PID: pid, Process: &event.Process{PPID: ppid, Argv: []string{"/opt/app", "serve"}}})
}

func (j *journal) execed(pid int) *journal {
	return j.add(event.Event{Kind: event.ProcessExeced, PID: pid, Process: &event.Process{Argv: []string{"/opt/helper"}}})
}

func (j *journal) exited(pid, code int) *journal {
	return j.add(event.Event{Kind: event.ProcessExited, PID: pid, Process: &event.Process{Code: &code}})
}

func (j *journal) killed(pid int) *journal {
	return j.add(event.Event{Kind: event.ProcessExited, PID: pid, Process: &event.Process{Signal: "SIGKILL"}})
}

func (j *journal) open(n, by int) *journal {
	j.add(event.Event{Kind: event.SessionOpened, Session: front(n), Opened: &event.Opened{Client: "127.0.0.1:1", Opener: by}})
	j.add(event.Event{Kind: event.SessionOpened, Session: back(n), Opened: &event.Opened{Client: "127.0.0.1:2"}})
	return j.name(back(n), n).name(front(n), n)
}

func (j *journal) name(id event.SessionID, n int) *journal {
	return j.add(event.Event{Kind: event.SessionNamed, Session: id, Named: &event.Named{BackendPID: backendBase + n, ApplicationName: "app/main"}})
}

func (j *journal) share(pids ...int) *journal {
	return j.add(event.Event{Kind: event.SessionShared, Session: front(1), Holders: &event.Holders{Opener: opener, PIDs: pids}})
}

func (j *journal) call(pid int, name event.CallName, typ string, holders ...int) *journal {
	e := event.Event{Kind: event.ProcessCalled, PID: pid, Call: &event.Call{Name: name, Type: typ, Holders: holders}}
	if name != event.CallExit {
		e.Session = front(1)
	}
	return j.add(e)
}

func (j *journal) terminate(pid int, holders ...int) *journal {
	return j.call(pid, event.CallSend, "Terminate", holders...)
}

func (j *journal) message(id event.SessionID, m event.Message) *journal {
	return j.add(event.Event{Kind: event.SessionMessage, Session: id, Message: &m})
}

func (j *journal) closing(id event.SessionID, c event.Closing) *journal {
	if c.State == "" {
		c.State = event.Idle
	}
	return j.add(event.Event{Kind: event.SessionClosing, Session: id, Closing: &c})
}

// subjectEnds lets the subject's end close in that manner, and the rest follow.
func (j *journal) subjectEnds(m event.Manner) *journal {
	j.closing(front(1), event.Closing{From: event.Frontend, Manner: m})
	j.closing(back(1), event.Closing{From: event.Frontend, Manner: m})
	j.closing(back(1), event.Closing{From: event.Backend, Manner: event.FIN})
	return j.closing(front(1), event.Closing{From: event.Backend, Manner: event.FIN})
}

// serverSays lets the server end session 1 with a FATAL message.
func (j *journal) serverSays(sqlstate string, state event.State) *journal {
	c := event.Closing{From: event.Backend, Manner: event.Fatal, State: state, SQLState: sqlstate, Text: "the server's words"}
	j.closing(back(1), c).closing(front(1), c)
	return j.closing(back(1), event.Closing{From: event.Backend, Manner: event.FIN})
}

func (j *journal) logged(text string) *journal {
	return j.add(event.Event{Kind: event.ServerLogged, PID: 400, Log: &event.Log{Severity: "LOG", Text: text}})
}

func (j *journal) fault(kind event.Kind, id, name string) *journal {
	return j.add(event.Event{Kind: kind, Fault: &event.Fault{ID: id, Name: name}})
}

// builtJournals are the cases that no recorded run has.
func builtJournals() map[string]func() []event.Event {
	query := func(pid int) func(*journal) *journal {
		return func(j *journal) *journal { return j.call(pid, event.CallSend, "Query") }
	}
	fatal := func(sqlstate string, state event.State) func() []event.Event {
		return func() []event.Event { return family().serverSays(sqlstate, state).events }
	}
	return map[string]func() []event.Event{
		"opener left": func() []event.Event {
			j := family(child).share(opener, child).terminate(opener, opener, child).subjectEnds(event.Terminate)
			return query(child)(j).events
		},
		"opener closed last": func() []event.Event {
			j := query(child)(family(child).share(opener, child))
			return j.terminate(opener, opener, child).subjectEnds(event.Terminate).events
		},
		"handed over": func() []event.Event {
			return family(child).share(child).terminate(child, child).subjectEnds(event.Terminate).events
		},
		"handed over, shutdown": func() []event.Event {
			return family(child).share(child).call(child, event.CallShutdown, "", child).subjectEnds(event.FIN).events
		},
		"inherited terminate": func() []event.Event {
			return family(child).share(opener, child).terminate(child, opener, child).subjectEnds(event.Terminate).events
		},
		"fin without exit":            func() []event.Event { return family().subjectEnds(event.FIN).events },
		"idle in transaction timeout": fatal("25P03", event.InTransaction),
		"idle timeout":                fatal("57P05", event.Idle),
		"transaction timeout":         fatal("25P04", event.InTransaction),
		"no slot left":                fatal("53300", event.Startup),
		"starting up":                 fatal("57P03", event.Startup),
		"nobody listens": func() []event.Event {
			return family().closing(back(1), event.Closing{From: event.Backend, Manner: event.Refused, State: event.Startup, Text: "connection refused"}).events
		},
		"statement timeout": func() []event.Event {
			j := family().message(front(1), event.Message{From: event.Backend, Type: "ErrorResponse", Severity: "ERROR", SQLState: "57014"})
			return j.terminate(opener, opener).subjectEnds(event.Terminate).events
		},
	}
}
