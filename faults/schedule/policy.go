// Package schedule turns a seed into faults: which ones, in which round, at
// which moment. It owns the pure functions Plan and Shrink and does nothing
// itself; scenarios/soak carries a schedule out. The golden files in testdata
// are authoritative for what a seed means.
package schedule

import (
	"fmt"
	"maps"
	"slices"

	"deadwire/faults/catalog"
)

// Policy says what a schedule may contain. The zero value is the default policy.
type Policy struct {
	// Weights say how often each kind is drawn, relative to the others; 0 never.
	// Kinds that are not named have the default weight of Kinds.
	Weights map[string]int `json:"weights,omitempty"`
	// FaultsMax bounds the faults of a round; default 3.
	FaultsMax int `json:"faults_max,omitempty"`
	// Swarm switches about half of all kinds off in each round, so that rounds
	// differ in more than luck; default true.
	Swarm *bool `json:"swarm,omitempty"`
	// OwnServer: rounds have a server to themselves, so it may be stopped.
	OwnServer bool `json:"own_server,omitempty"`
	// FixedSettings: the server's settings are not ours to change.
	FixedSettings bool `json:"fixed_settings,omitempty"`
	// Major is the server's major version; 0 when it is not known.
	Major int `json:"major,omitempty"`
	// Program: the subject is not conveyor with its fault seam, so only what is
	// done to any program is drawn.
	Program bool `json:"program,omitempty"`
	// Workers is how many workers the subject is given; default 3.
	Workers int `json:"workers,omitempty"`
}

const (
	faultsMaxDefault = 3
	workersDefault   = 3
)

func (p Policy) withDefaults() Policy {
	if p.FaultsMax == 0 {
		p.FaultsMax = faultsMaxDefault
	}
	if p.Workers == 0 {
		p.Workers = workersDefault
	}
	if p.Swarm == nil {
		yes := true
		p.Swarm = &yes
	}
	return p
}

// Check returns what is wrong with the policy, naming the nearest known word.
func (p Policy) Check() error {
	if p.FaultsMax < 0 || p.Workers < 0 {
		return fmt.Errorf("faults_max and workers must not be negative")
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(p.Weights)) {
		weight := p.Weights[name]
		if !slices.Contains(Kinds(), name) {
			return fmt.Errorf("weights: unknown kind %q%s", name, catalog.Suggest(name, Kinds()))
		}
		if weight < 0 {
			return fmt.Errorf("weights: %s: %d is negative", name, weight)
		}
	}
	for _, d := range p.withDefaults().possible() {
		total += d.weight
	}
	if total == 0 {
		return fmt.Errorf("weights: no kind is left that could be drawn")
	}
	return nil
}

// possible returns the kinds with their weights; a weight is zero when the kind
// is impossible under the policy.
func (p Policy) possible() []draw {
	all := draws()
	for i := range all {
		if w, named := p.Weights[all[i].kind]; named {
			all[i].weight = w
		}
		if !p.has(all[i].needs) {
			all[i].weight = 0
		}
	}
	return all
}

func (p Policy) has(n needs) bool {
	return (!n.ownServer || p.OwnServer) && (!n.settings || !p.FixedSettings) && (!n.conveyor || !p.Program)
}

// Kinds returns the names of the kinds that a schedule may contain, ordered.
func Kinds() []string {
	var names []string
	for _, d := range draws() {
		names = append(names, d.kind)
	}
	slices.Sort(names)
	return names
}
