package soak

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"

	"github.com/goccy/go-yaml"

	"deadwire/faults/schedule"
)

// Policy is what a soak may do and what it must come to. The zero value is the
// default policy.
type Policy struct {
	Schedule schedule.Policy
	// Cards is how many the subject works on in each round; default 18.
	Cards int
	// Catalogues is how many different catalogues take turns: each costs a fault-free
	// run, made once; default 4.
	Catalogues int
	// Redo: every so many rounds the work was done once before and is done again;
	// default 0, never.
	Redo int
	// Dispatchers is how many conveyors work on a round's database at once, at most;
	// default 3.
	Dispatchers int
	// Program is a user's own program to soak; nil for conveyor.
	Program *Program
	// Thresholds are conditions on the tally's numbers, such as "recovery p95 < 20s".
	Thresholds []string

	conditions []condition
}

// policyFile is the form of a policy in a file.
type policyFile struct {
	Weights    map[string]int `yaml:"weights"`
	FaultsMax  int            `yaml:"faults_max"`
	Swarm      *bool          `yaml:"swarm"`
	Workers    int            `yaml:"workers"`
	Cards      int            `yaml:"cards"`
	Catalogues int            `yaml:"catalogues"`
	Redo       int            `yaml:"redo"`
	Dispatch   int            `yaml:"dispatchers"`
	Thresholds []string       `yaml:"thresholds"`
	Command    []string       `yaml:"command"`
	SQL        string         `yaml:"check"`
	Expect     string         `yaml:"expect"`
	Forbid     string         `yaml:"forbid"`
}

const (
	cardsDefault       = 18
	cataloguesDefault  = 4
	dispatchersDefault = 3
)

func (p Policy) withDefaults() Policy {
	p.Schedule.Workers = cmp.Or(p.Schedule.Workers, 3)
	p.Cards = cmp.Or(p.Cards, cardsDefault)
	p.Catalogues = cmp.Or(p.Catalogues, cataloguesDefault)
	p.Dispatchers = cmp.Or(p.Dispatchers, dispatchersDefault)
	return p
}

// ReadPolicy reads a policy file strictly. Every error names the file and, where
// there is one, the line.
func ReadPolicy(file string) (Policy, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Policy{}, fmt.Errorf("policy: %w", err)
	}
	var f policyFile
	if err := yaml.UnmarshalWithOptions(text, &f, yaml.DisallowUnknownField()); err != nil {
		return Policy{}, fmt.Errorf("%s: %s", file, yaml.FormatError(err, false, true))
	}
	p := Policy{
		Schedule: schedule.Policy{Weights: f.Weights, FaultsMax: f.FaultsMax, Swarm: f.Swarm, Workers: f.Workers},
		Cards:    f.Cards, Catalogues: f.Catalogues, Redo: f.Redo, Dispatchers: f.Dispatch, Thresholds: f.Thresholds,
	}
	if len(f.Command) > 0 || f.SQL != "" || f.Expect != "" || f.Forbid != "" {
		p.Program = &Program{Command: f.Command, Check: f.SQL, Expect: f.Expect, Forbid: f.Forbid}
	}
	if err := p.Check(); err != nil {
		return Policy{}, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// Check returns what is wrong with the policy, and reads its thresholds.
func (p *Policy) Check() error {
	for _, count := range []struct {
		name string
		n    int
	}{{"cards", p.Cards}, {"catalogues", p.Catalogues}, {"redo", p.Redo}, {"dispatchers", p.Dispatchers}} {
		if count.n < 0 {
			return fmt.Errorf("%s: %d is negative", count.name, count.n)
		}
	}
	if err := p.Program.check(); err != nil {
		return err
	}
	p.Schedule.Program = p.Program != nil
	if err := p.Schedule.Check(); err != nil {
		return err
	}
	p.conditions = nil
	for _, text := range p.Thresholds {
		c, err := parseCondition(text)
		if err != nil {
			return fmt.Errorf("thresholds: %w", err)
		}
		p.conditions = append(p.conditions, c)
	}
	return nil
}

// check returns what is wrong with the patterns. Whether there is a command is
// known only once the flags were read too.
func (p *Program) check() error {
	if p == nil {
		return nil
	}
	for field, pattern := range map[string]string{"expect": p.Expect, "forbid": p.Forbid} {
		if _, err := regexp.Compile(pattern); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

func unique(words []string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}
