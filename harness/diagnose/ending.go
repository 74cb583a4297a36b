package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"deadwire/harness/event"
)

// windows in which two facts belong to one cause
const (
	// crashWindow: the postmaster ends all sessions within milliseconds of a crash,
	// and its log line may reach us through a file a little later.
	crashWindow = 2 * time.Second
	// exitWindow: the kernel sends the FIN while the process is still exiting; the
	// exit is reported after it, sooner than this even on a busy machine.
	exitWindow = 3 * time.Second
	// healEcho: what a fault kept back is seen only when it is healed. Toxiproxy
	// closes the connections that it had silenced, and a tap delivers what it had
	// held, the client's goodbye with it.
	healEcho = 2 * time.Second
	// finLag: how much later than the report of an exit a tap may see the FIN that
	// the exit caused. Loopback takes microseconds, a busy machine milliseconds.
	finLag = 50 * time.Millisecond
	// exitEarly: an exit reported this long before the FIN did not cause it, however
	// busy the machine: somebody unseen held the socket on.
	exitEarly = 500 * time.Millisecond
)

// byServerCrash recognises an ending that was one of many: a backend died
// abnormally and the postmaster ended all the others (family F11).
func (h *history) byServerCrash(s *session, signs []event.Event, e *Ending) bool {
	first := signs[0]
	if fatal := firstFatal(signs); fatal != nil && fatal.Closing.SQLState == "57P02" {
		e.SQLState = fatal.Closing.SQLState
		h.crash(e, fatal.Seq, "PostgreSQL ended this session because another backend crashed (57P02)")
		return true
	}
	if first.Closing.From != event.Backend || first.Closing.Manner == event.Fatal || first.Closing.Cause != "" {
		return false // the server's own word, or somebody else's doing
	}
	for _, log := range h.logs {
		if !near(log.At, first.At, crashWindow) || !isCrashLine(log.Log.Text) {
			continue
		}
		what := "PostgreSQL ended all sessions after a backend crashed"
		if strings.Contains(log.Log.Text, immediateLine) {
			what = "PostgreSQL was stopped at once, without a word to its sessions"
		}
		if victim := fmt.Sprintf("(PID %d)", s.front.backendPID()); strings.Contains(log.Log.Text, victim) {
			what = fmt.Sprintf("the server process of this session (backend %d) was killed", s.front.backendPID())
		}
		h.crash(e, log.Seq, what+": «"+clip(log.Log.Text)+"»")
		return true
	}
	return false
}

// byServerGone recognises a connection that waited to be accepted when the
// server went: the kernel resets it as the postmaster's listener closes.
func (h *history) byServerGone(_ *session, signs []event.Event, e *Ending) bool {
	first := signs[0]
	if origin(first) != SideServer || first.Closing.State != event.Startup || first.Closing.Cause != "" {
		return false
	}
	for _, log := range h.logs {
		if near(log.At, first.At, crashWindow) && strings.Contains(log.Log.Text, "database system is shut down") {
			h.crash(e, log.Seq, "the server was shut down before it accepted this connection")
			e.Certainty = Inferred
			return true
		}
	}
	return false
}

func (h *history) crash(e *Ending, seq int64, message string) {
	e.Rule, e.Side, e.Actor = "backend.crash-restart", SideServer, Actor{Kind: Server}
	e.Certainty, e.Message = Exact, message
	e.Evidence = append(e.Evidence, seq)
}

func isCrashLine(text string) bool {
	return strings.Contains(text, "was terminated by signal") ||
		strings.Contains(text, "terminating any other active server processes") ||
		strings.Contains(text, "terminating connection because of crash of another server process") ||
		strings.Contains(text, immediateLine)
}

// immediateLine is what the postmaster logs when it is told to stop at once: its
// backends exit on SIGQUIT, and what they still say is a warning, if it is sent at all
// (PostgreSQL documentation, "Shutting Down the Server").
const immediateLine = "received immediate shutdown request"

// byFatal recognises an ending that the server announced.
func (h *history) byFatal(_ *session, signs []event.Event, e *Ending) bool {
	fatal := firstFatal(signs)
	if fatal == nil || !onlyServerBefore(signs, fatal) {
		return false
	}
	e.SQLState, e.Manner, e.State = fatal.Closing.SQLState, event.Fatal, fatal.Closing.State
	e.Side, e.Actor, e.Certainty = SideServer, Actor{Kind: Server}, Exact
	e.Evidence = append(e.Evidence, fatal.Seq)
	e.Rule = fatalRule(e.SQLState)
	said := fmt.Sprintf("PostgreSQL ended it with %s «%s»", e.SQLState, clip(fatal.Closing.Text))
	switch {
	case fatal.Closing.Cause != "":
		e.Actor = Actor{Kind: Fault, Fault: h.faultName(fatal.Closing.Cause)}
		e.Side = SideNetwork
		e.Message = fmt.Sprintf("fault %s answered in the server's place with %s", e.Actor.Fault, e.SQLState)
	case e.Rule == "":
		e.Rule = RuleUnknown
		e.Message = said + "; no rule covers this SQLSTATE yet"
	default:
		e.Message = said + h.afterShutdown(fatal, e)
	}
	if e.Rule == "" { // our own words, with a SQLSTATE that is no server's way to end a session
		e.Rule = "network.closed"
	}
	return true
}

func fatalRule(sqlstate string) string {
	switch sqlstate {
	case "57P01":
		return "backend.admin-terminate"
	case "57P02", "57P03":
		return "backend.crash-restart"
	case "25P03", "57P05", "25P04":
		return "backend.session-timeout"
	case "53300":
		return "capacity.exhausted"
	default:
		return ""
	}
}

// afterShutdown names the shutdown request that came before a 57P01, if one did.
func (h *history) afterShutdown(fatal *event.Event, e *Ending) string {
	for _, log := range h.logs {
		if log.At <= fatal.At+crashWindow && near(log.At, fatal.At, crashWindow) && strings.Contains(log.Log.Text, "shutdown request") {
			e.Evidence = append(e.Evidence, log.Seq)
			return ", after " + clip(log.Log.Text)
		}
	}
	return ""
}

// byFault recognises an ending that one of our own faults made.
func (h *history) byFault(s *session, signs []event.Event, e *Ending) bool {
	for _, sign := range signs {
		if sign.Closing.Cause == "" {
			continue
		}
		if sign.At > signs[0].At && signs[0].Closing.From == event.Frontend && signs[0].Closing.Manner == event.Terminate {
			return false
		}
		name := h.faultName(sign.Closing.Cause)
		e.Manner, e.State, e.Side = sign.Closing.Manner, sign.Closing.State, SideNetwork
		e.Actor, e.Certainty, e.Rule = Actor{Kind: Fault, Fault: name}, Exact, networkRule(sign.Closing.Manner)
		e.Evidence = append(e.Evidence, sign.Seq, h.faults[sign.Closing.Cause].Seq)
		e.Message = fmt.Sprintf("fault %s ended it by %s, on the way between subject and server", name, sayManner(e.Manner))
		droppedInSilence(sign, e)
		return true
	}
	return h.bySwallowing(s, signs, e) || h.byDownLink(signs[0], e)
}

// byDownLink recognises sessions that ended, or were refused, because a fault
// had taken the link away.
func (h *history) byDownLink(first event.Event, e *Ending) bool {
	if origin(first) != SideNetwork {
		return false
	}
	fault := h.active("network.down", first.At)
	if limit := h.active("network.limit-data", first.At); fault == nil && limit != nil && first.Closing.Manner == event.FIN {
		return h.byLimit(limit, e)
	}
	if fault == nil {
		return false
	}
	e.Rule, e.Side, e.Certainty = "network.closed", SideNetwork, Inferred
	e.Actor = Actor{Kind: Fault, Fault: fault.Fault.Name}
	e.Evidence = append(e.Evidence, fault.Seq)
	e.Message = fmt.Sprintf("fault %s had taken the link away: %s", fault.Fault.Name, sayManner(first.Closing.Manner))
	return true
}

// byLimit recognises a session that ended because its ration of bytes was used up.
func (h *history) byLimit(fault *event.Event, e *Ending) bool {
	e.Rule, e.Side, e.Certainty = "network.closed", SideNetwork, Inferred
	e.Actor = Actor{Kind: Fault, Fault: fault.Fault.Name}
	e.Evidence = append(e.Evidence, fault.Seq)
	e.Message = "fault network.limit-data closed it once its bytes had passed"
	return true
}

// active returns the first injection of a fault of that name that was not healed
// yet at that time, or nil.
func (h *history) active(name string, at time.Duration) *event.Event {
	var first *event.Event
	for id, fault := range h.faults {
		healedAt, healed := h.healed[id]
		if name == "network.blackhole" || name == "network.stall" {
			healedAt += healEcho
		}
		lasts := fault.Fault.Name == name && fault.At <= at && (!healed || healedAt >= at)
		if lasts && (first == nil || fault.Seq < first.Seq) {
			first = &fault
		}
	}
	return first
}

// origin returns the side from which a sign came: a tap's far leg is the
// network as long as the other tap has not seen the same before.
func origin(sign event.Event) Side {
	switch {
	case sign.Session.Place == event.Front && sign.Closing.From == event.Frontend:
		return SideSubject
	case sign.Session.Place == event.Back && sign.Closing.From == event.Backend:
		return SideServer
	default:
		return SideNetwork
	}
}

// bySwallowing recognises a client that gave up while a fault kept its answer.
func (h *history) bySwallowing(s *session, signs []event.Event, e *Ending) bool {
	first := signs[0]
	fault, did := h.active("network.blackhole", first.At), "swallowed the traffic"
	if fault == nil {
		fault, did = h.stalled(s, first.At), "held what was on its way"
	}
	if fault == nil || origin(first) == SideServer || first.Closing.Manner == event.Terminate {
		return false
	}
	e.Rule, e.Manner, e.Side = "network.blackhole", event.Silence, SideNetwork
	e.Actor, e.Certainty = Actor{Kind: Fault, Fault: fault.Fault.Name}, Inferred
	e.Evidence = append(e.Evidence, fault.Seq)
	e.Message = "the client gave up waiting while fault " + fault.Fault.Name + " " + did
	return true
}

func networkRule(m event.Manner) string {
	switch m {
	case event.RST:
		return "network.reset"
	case event.Silence:
		return "network.blackhole"
	default:
		return "network.closed"
	}
}

// byVisit recognises a client that connected, said nothing and left: a look
// whether the port is open, or a pool that opened one connection too many.
func (h *history) byVisit(s *session, signs []event.Event, e *Ending) bool {
	ended := s.front.ended
	if origin(signs[0]) != SideSubject || ended == nil || s.wasHeard() {
		return false
	}
	e.Rule, e.Side, e.Actor = "close.ordinary", SideSubject, Actor{Kind: Opener, PID: s.opener()}
	if e.Actor.PID == 0 {
		e.Actor.Kind = Unknown
	}
	e.Evidence = append(e.Evidence, ended.Seq)
	e.Message = "a connection without a word: the client connected, sent no byte, and left by " + sayManner(signs[0].Closing.Manner)
	return true
}

// wasHeard reports whether the client sent anything: bytes that were passed on, or
// a request for TLS, which the tap answers itself.
func (s *session) wasHeard() bool {
	return s.front.ended.Ended.BytesToServer > 0 ||
		slices.ContainsFunc(s.front.messages, func(e event.Event) bool { return e.Message.From == event.Frontend })
}

// byNetwork recognises an ending that neither the subject nor the server made:
// each of them saw the other side close. What is left over stays unknown.
func (h *history) byNetwork(s *session, signs []event.Event, e *Ending) bool {
	first := signs[0]
	e.Side = origin(first)
	switch {
	case first.Closing.Manner == event.Refused:
		e.Side = SideNetwork
		refused(first, e)
	case e.Side == SideSubject:
		e.Message = fmt.Sprintf("the subject's end was closed by %s without Terminate, and no process was seen to exit: "+
			"a driver's time-out or a collected connection does that", sayManner(first.Closing.Manner))
	case e.Side == SideServer:
		e.Message = fmt.Sprintf("the server's end was closed by %s, without an error message and without a line in its log", sayManner(first.Closing.Manner))
	case s.back == nil:
		e.Message = "the connection was closed from beyond the tap, and there was no second tap to tell the server from the network"
	default:
		e.Rule = networkRule(first.Closing.Manner)
		e.Actor = Actor{Kind: Unknown}
		e.Message = fmt.Sprintf("something between the two taps ended it by %s: neither the subject nor the server had closed", sayManner(first.Closing.Manner))
	}
	return true
}

func firstFatal(signs []event.Event) *event.Event {
	for i := range signs {
		if signs[i].Closing.Manner == event.Fatal {
			return &signs[i]
		}
	}
	return nil
}

// onlyServerBefore reports whether nothing but the server's own signs came before fatal.
func onlyServerBefore(signs []event.Event, fatal *event.Event) bool {
	for _, sign := range signs {
		if sign.Seq == fatal.Seq {
			return true
		}
		if sign.At < fatal.At && sign.Closing.From != event.Backend {
			return false
		}
	}
	return true
}

func (h *history) faultName(id string) string {
	if f, ok := h.faults[id]; ok {
		return f.Fault.Name
	}
	return id
}

func near(a, b, within time.Duration) bool { return a-b <= within && b-a <= within }

func sayManner(m event.Manner) string {
	switch m {
	case event.FIN:
		return "FIN"
	case event.RST:
		return "RST"
	case event.Silence:
		return "silence"
	default:
		return string(m)
	}
}

func clip(text string) string {
	const max = 120
	line, _, _ := strings.Cut(text, "\n")
	if len(line) > max {
		return line[:max] + "…"
	}
	return line
}
