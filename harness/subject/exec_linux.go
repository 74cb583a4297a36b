package subject

import (
	"slices"

	"deadwire/harness/event"
	"deadwire/harness/witness"
)

// checkExec records that a process became another program. Its memory is laid
// out anew by that; what is in argv could change without an exec. That the root
// became the program that was announced is no news; that it was no more that one at
// the first look, is: on a busy machine a shell has become its last command by then.
func (t *tree) checkExec(p *process) {
	s, err := readStat(p.pid)
	if err != nil || s.start != p.start || s.image == 0 || s.image == p.image || p.launcher {
		return
	}
	argv := readArgv(p.pid)
	if len(argv) == 0 || p.root && argv[0] == witness.LauncherName {
		return
	}
	quiet := p.image == 0 && !p.blank
	if p.root {
		quiet, p.became = !p.became && startedAs(p.announced, argv), true
	}
	p.image, p.execing, p.blank = s.image, false, false
	if quiet {
		return
	}
	t.recorder.Record(event.Event{
		Kind: event.ProcessExeced, PID: p.pid,
		Process: &event.Process{PPID: s.ppid, Argv: t.hide.argv(argv), StartTicks: p.start},
	})
}

// startedAs reports whether argv is the command line of a program that was started as
// announced: the same, or that of a script's interpreter, which the kernel puts in
// place of the script's name.
func startedAs(announced, argv []string) bool {
	if slices.Equal(announced, argv) {
		return true
	}
	more := len(argv) - len(announced)
	return more > 0 && len(announced) > 0 && slices.Equal(argv[more+1:], announced[1:])
}
