// Package report owns what a run says about itself: the model behind every
// format, the Reporter that formats implement, and the JSON file. It does not
// judge; cases arrive with their verdicts. The JSON names below are a public
// contract: fields may be added, never changed in meaning.
package report

import (
	"deadwire/harness/diagnose"
	"deadwire/harness/verdict"
)

// The schemas of the JSON files.
const (
	RunSchema  = "deadwire.run/1"
	ExecSchema = "deadwire.exec/1"
)

// Outcome is what the subject did in a case.
type Outcome string

// The outcomes of a subject.
const (
	Completes Outcome = "completes"
	Fails     Outcome = "fails"
)

// Postgres says which server a run used.
type Postgres struct {
	Version  string `json:"version"`
	Provider string `json:"provider"` // local, docker, embedded or external
}

// Name names a case: one variant of a scenario.
type Name struct {
	Scenario string `json:"scenario"`
	Case     string `json:"case"`
}

// String returns the name as people write it: inherited-terminate/broken.
func (n Name) String() string { return n.Scenario + "/" + n.Case }

// Plan is what a run is about to do.
type Plan struct {
	Version  string   `json:"version"`
	Seed     string   `json:"seed"`
	Dir      string   `json:"dir"`
	Postgres Postgres `json:"postgres"`
	Cases    []Name   `json:"cases"`
}

// Run is everything that a finished run says.
type Run struct {
	Schema      string         `json:"schema"`
	Version     string         `json:"version"`
	Seed        string         `json:"seed"`
	Dir         string         `json:"dir"` // absolute path of the run's folder
	Postgres    Postgres       `json:"postgres"`
	DurationMS  int64          `json:"duration_ms"` // wall time
	Interrupted bool           `json:"interrupted,omitempty"`
	Cases       []Case         `json:"cases"`
	Totals      verdict.Totals `json:"totals"`
}

// Case is the judgement of one case, with its evidence.
type Case struct {
	Name
	Iteration  int             `json:"iteration,omitempty"` // from 1, when cases run more than once
	Verdict    verdict.Verdict `json:"verdict"`
	Reason     string          `json:"reason,omitempty"`   // why undetermined, skip or fail, in one sentence
	Problems   []string        `json:"problems,omitempty"` // of Reason, one by one
	DurationMS int64           `json:"duration_ms"`
	RecoveryMS int64           `json:"recovery_ms,omitempty"` // of the run that resumed after healing
	// MemoryBytes is the most resident memory that the subject's first process was seen
	// to have, in bytes; 0 where it could not be seen.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`

	Outcome  Outcome            `json:"outcome,omitempty"`
	Error    string             `json:"error,omitempty"` // the subject's own words
	Endings  []diagnose.Ending  `json:"endings"`
	Findings []diagnose.Finding `json:"findings"`
	Faults   []string           `json:"faults,omitempty"` // names of the faults that were seen to act
	Numbers  []Number           `json:"numbers,omitempty"`
	Proof    *Proof             `json:"proof,omitempty"`
	Where    string             `json:"where,omitempty"` // FILE:LINE of the case in its scenario
	Dir      string             `json:"dir,omitempty"`   // of the case, relative to the run's
	NotRun   bool               `json:"-"`               // the user interrupted the run before it was judged
	Again    string             `json:"again,omitempty"` // the shell command that runs the case again, from any folder
}

// Number is a measured value, with its limit if it has one.
type Number struct {
	Name  string `json:"name"`
	Value string `json:"value"`           // with its unit
	Limit string `json:"limit,omitempty"` // such as "< 2s"
	OK    bool   `json:"ok"`
}

// Proof is the second run of a case, with only the accused act suppressed.
type Proof struct {
	Suppressed string  `json:"suppressed"` // the act: Terminate by 8131 on session 3
	Outcome    Outcome `json:"outcome"`
	Error      string  `json:"error,omitempty"`
	Proven     bool    `json:"proven"` // the failure disappeared with the act
}

// Exec is what deadwire exec says: a run of one case, and the subject's fate.
type Exec struct {
	Run
	Command  []string  `json:"command"`
	ExitCode int       `json:"exit_code"`
	Sharing  []Sharing `json:"sharing"`
	Sessions int       `json:"sessions"`          // how many were opened
	Witness  string    `json:"witness,omitempty"` // how processes were watched: exact, holders, defer or none
	Missing  []string  `json:"missing,omitempty"` // evidence that could not be had, and why
	Note     string    `json:"note,omitempty"`    // the user's own
}

// Sharing says that a process holds a session that another one opened.
type Sharing struct {
	Session int `json:"session"`
	Opener  int `json:"opener"`
	Holder  int `json:"holder"`
}
