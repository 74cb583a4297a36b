// Package faults is what deadwire breaks on purpose: the Fault interface, the
// Target that a fault may touch, the triggers that say when, and During, the
// only caller of Inject. It owns no mechanism; taps, Toxiproxy, the subject and
// the server do the breaking. Faults act only on sessions that came through our
// own taps and on processes of our own subject.
package faults
