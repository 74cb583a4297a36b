// Package witness tells who opens, holds, uses and hangs up a session of the
// subject: exactly, by seccomp user notification, or, where that cannot be had,
// by looking at who holds the socket.
//
// It owns the launcher that the subject is started through, the notifications
// that the kernel sends about it, and the link between a socket's inode and a
// session. It does not own the process tree (that is package subject, behind
// Tracker), does not read the wire (package tap), and judges nothing (package
// diagnose).
//
// The kernel is authoritative: an event of kind process.called was recorded
// while the caller stood still inside that very call. The interface is that of
// seccomp_unotify(2); the choices made here (which calls, which flags) follow
// from measurements on Linux 6.18 with PostgreSQL 15 clients.
package witness
