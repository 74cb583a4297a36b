// Package subject runs the program under test, with all the processes that come
// of it, and sees to it that none of them outlives the run.
//
// It owns the process tree: its root's start, the discovery of every
// descendant, each exit with its code or signal, the output, signals, and the
// end of all. It does not own who opens or ends a session (package witness,
// which it starts the root through), nor what any of it means (package
// diagnose).
//
// The kernel is authoritative for who is alive: a process is known by its pid
// together with its start time, and is held by a pidfd, so that a number given
// to a stranger is never signalled, reaped or reported. Deadwire becomes the
// child subreaper of what it starts, see prctl(2), so that daemons stay below it.
package subject
