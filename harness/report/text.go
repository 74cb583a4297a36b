package report

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"deadwire/harness/diagnose"
	"deadwire/harness/event"
	"deadwire/harness/rundir"
)

// argvBytesMax bounds the command line in a sentence; the JSON has it whole.
const argvBytesMax = 60

// escapes are the control sequences of terminals (ECMA-48 section 5.4, and OSC).
var escapes = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b.?")

// Plain returns text on one line, passwords masked, without control characters
// and without the marks that reorder text, so that nothing a subject printed
// can drive the reader's terminal or break a report's syntax.
func Plain(text string) string {
	text = escapes.ReplaceAllString(text, "")
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == unicode.ReplacementChar, r == 0xfffe, r == 0xffff:
			return -1
		}
		return r
	}, text)
	return rundir.Mask(strings.Join(strings.Fields(text), " "))
}

// Duration returns a number of milliseconds as people say it: 0.4s, 2m14s.
func Duration(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d < time.Minute {
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	}
	text := d.Round(time.Second).String()
	if whole, found := strings.CutSuffix(text, "m0s"); found {
		return whole + "m"
	}
	return text
}

// ActorOf names the actor of an ending. That a session ended with the process that
// had opened it is the common case, and is said.
func ActorOf(e diagnose.Ending) string {
	if e.Actor.Kind == diagnose.Kernel && e.Actor.PID != 0 && e.Actor.PID == e.Opener.PID {
		return strings.Replace(Actor(e.Actor), "the exit of process", "the exit of its own process", 1)
	}
	return Actor(e.Actor)
}

// Evidence returns event numbers as #12 #40, empty when there are none.
func Evidence(seqs []int64) string {
	words := make([]string, len(seqs))
	for i, seq := range seqs {
		words[i] = "#" + strconv.FormatInt(seq, 10)
	}
	return strings.Join(words, " ")
}

// Who returns one sentence on who ended the session and how: the diagnosis's
// own, or one made from its fields.
func Who(e diagnose.Ending) string {
	if e.Message != "" {
		return Plain(e.Message)
	}
	return fmt.Sprintf("%s %s the session %s", ActorOf(e), verb(e.Manner), state(e.State))
}

// Actor names an actor with its pid, command and parent.
func Actor(a diagnose.Actor) string {
	switch a.Kind {
	case diagnose.Server:
		return "the server"
	case diagnose.Fault:
		return "the fault " + Plain(a.Fault)
	case diagnose.Unknown, "":
		return "an unknown actor"
	}
	words := fmt.Sprintf("%s %d", a.Kind, a.PID)
	if a.Kind == diagnose.Kernel {
		words = fmt.Sprintf("the exit of process %d", a.PID)
	}
	var about []string
	if len(a.Argv) > 0 {
		about = append(about, command(a.Argv))
	}
	if a.PPID != 0 {
		about = append(about, "child of "+strconv.Itoa(a.PPID))
	}
	if len(about) > 0 {
		words += " (" + strings.Join(about, ", ") + ")"
	}
	return words
}

func command(argv []string) string {
	words := append([]string{filepath.Base(argv[0])}, argv[1:]...)
	line := Plain(strings.Join(words, " "))
	runes := []rune(line)
	if len(runes) > argvBytesMax {
		return string(runes[:argvBytesMax-1]) + "…"
	}
	return line
}

func verb(m event.Manner) string {
	switch m {
	case event.Terminate:
		return "sent Terminate and ended"
	case event.FIN:
		return "closed"
	case event.RST:
		return "reset"
	case event.Fatal:
		return "ended"
	case event.Silence:
		return "silenced"
	case event.Refused:
		return "refused"
	case event.Desync:
		return "broke the protocol of"
	default:
		return "ended"
	}
}

func state(s event.State) string {
	if s == "" {
		return "in an unknown state"
	}
	return "while " + string(s)
}

// How returns the facts behind an ending: actor unless Who named it, manner,
// side, state, certainty and evidence, in this order.
func How(e diagnose.Ending) string {
	manner := "manner " + string(e.Manner)
	if e.SQLState != "" {
		manner += " " + Plain(e.SQLState)
	}
	parts := []string{manner}
	if e.Message != "" {
		parts = []string{ActorOf(e), manner}
	}
	if e.Side != "" {
		parts = append(parts, "from the "+string(e.Side))
	}
	parts = append(parts, state(e.State), "certainty "+string(e.Certainty))
	if len(e.Evidence) > 0 {
		parts = append(parts, "events "+Evidence(e.Evidence))
	}
	return strings.Join(parts, "; ")
}

// Title names an ending: session 3 (coordinator), fork.inherited-terminate.
func Title(e diagnose.Ending) string {
	title := fmt.Sprintf("session %d", e.Session)
	if e.Role != "" {
		title += " (" + Plain(e.Role) + ")"
	}
	return title + ", " + e.Rule
}

// Act names what an actor did to a session: Terminate by inheritor 8131 on session 3.
func Act(e diagnose.Ending) string {
	act := "Terminate"
	if e.Manner != event.Terminate {
		act = "shutdown"
	}
	if e.Actor.PID == 0 {
		return fmt.Sprintf("%s on session %d", act, e.Session)
	}
	return fmt.Sprintf("%s by %s on session %d", act, Actor(e.Actor), e.Session)
}

// Broken returns the name of what a finding is about: its invariant or rule,
// and the session if there is one.
func Broken(f diagnose.Finding) string {
	name := f.Invariant
	if name == "" {
		name = f.Rule
	}
	if f.Session != 0 {
		name += fmt.Sprintf(", session %d", f.Session)
	}
	return Plain(name)
}

// Unexpected returns the endings that nothing declared.
func (c Case) Unexpected() []diagnose.Ending {
	var endings []diagnose.Ending
	for _, e := range c.Endings {
		if !e.Expected {
			endings = append(endings, e)
		}
	}
	return endings
}

// Said returns why the case has its verdict, in one sentence, never empty.
func (c Case) Said() string {
	switch {
	case c.Reason != "":
		return Plain(c.Reason)
	case len(c.Findings) > 0:
		return Broken(c.Findings[0]) + ": " + Plain(c.Findings[0].Message)
	case len(c.Unexpected()) > 0:
		e := c.Unexpected()[0]
		return Title(e) + ": " + Who(e)
	case c.Error != "":
		return Plain(c.Error)
	default:
		return "verdict " + string(c.Verdict)
	}
}
