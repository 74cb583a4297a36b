// Package pipeline is conveyor, assembled: it opens the coordinator's session, joins
// dispatch to the fetcher and to the worker processes, and imports and inspects
// the catalogue. It does not parse flags and ends no process (package command and
// its mains do). The database is authoritative about what was done; nothing is
// remembered elsewhere.
package pipeline
