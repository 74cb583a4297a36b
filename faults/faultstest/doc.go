// Package faultstest is the conformance suite of all faults: each is played
// against a real rig (server, taps, Toxiproxy, subject) with a real client, and
// must act, be seen by a witness other than itself, heal, heal twice, heal after
// its context was cancelled, and refuse with a reason where it cannot act. It
// owns the course of a play; what a client must meet is the play's.
package faultstest
