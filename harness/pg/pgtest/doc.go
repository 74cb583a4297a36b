// Package pgtest is the conformance suite of PostgreSQL providers: what every
// server must do, and what a provider that did not start its server must refuse.
//
// It owns no provider; each one's tests call Exercise with a way to make it, and
// Main so that the suite can start, and kill, a process of its own. What a server
// really did is asked of the server and of the kernel, not of the provider.
package pgtest
