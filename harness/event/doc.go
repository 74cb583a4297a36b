// Package event is the vocabulary of facts that a run records, and the journal
// that keeps them in order on one monotonic clock.
//
// It owns what happened, never what it means: diagnosis and oracles are pure
// functions over the events. Nothing in an Event may carry a password, a bind
// value, a cancel key or an authentication exchange; the producers are built so
// that such bytes never reach one.
package event
