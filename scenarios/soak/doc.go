// Package soak breaks a subject on purpose, by a seed, for as long as it is told
// to, and says whether every promise held. Each round is a scenario of its own,
// written as the text that `deadwire run` reads: a faulted run of the subject,
// healing, a run that resumes, and a comparison with a fault-free run. A round
// that fails is made smaller until nothing more can be left out, and what remains
// is such a text again: repro.yaml.
//
// It owns the rounds, the thresholds, the shrinking and the tally. What a seed
// means is faults/schedule's, what a round comes to is judged by scenarios.
package soak
