// Package scenarios is the experiments as data, and the runner that carries one
// out: a scenario is a story (symptom, cause, fix) with cases, each of which
// says what is broken, when, and how it must end. It owns the judgement of a
// case; the facts come from the journal, the diagnosis and the oracle.
package scenarios
