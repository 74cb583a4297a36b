// Package catalog is the explicit list of all faults: it decodes them strictly
// from data and describes their parameters. It owns no fault; a test fails when
// a fault type exists that is not listed here.
package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/agext/levenshtein" // small, stable edit distance for "did you mean"

	"deadwire/faults"
	"deadwire/faults/backend"
	"deadwire/faults/fork"
	"deadwire/faults/network"
	"deadwire/faults/process"
	"deadwire/faults/source"
)

// All returns the zero value of every fault, ordered by name.
func All() []faults.Fault {
	all := []faults.Fault{
		backend.Cancel{},
		backend.Crash{},
		backend.Lock{},
		backend.ReadOnly{},
		backend.Restart{},
		backend.Slots{},
		backend.Terminate{},
		backend.Timeout{},
		fork.Fork{},
		network.Bandwidth{},
		network.Blackhole{},
		network.Cut{},
		network.Down{},
		network.Error{},
		network.HalfClose{},
		network.IdleCut{},
		network.Latency{},
		network.LimitData{},
		network.Refuse{},
		network.Reset{},
		network.Slicer{},
		network.SlowClose{},
		network.Stall{},
		process.CPU{},
		process.Descriptors{},
		process.Exit{},
		process.Freeze{},
		process.Memory{},
		process.Orphan{},
		process.Panic{},
		process.Signal{},
		process.SlowStart{},
		source.Bomb{},
		source.Corrupt{},
		source.Cut{},
		source.Hang{},
		source.Status{},
	}
	slices.SortFunc(all, func(a, b faults.Fault) int { return strings.Compare(a.Name(), b.Name()) })
	return all
}

// Names returns the names of all faults, ordered.
func Names() []string {
	var names []string
	for _, f := range All() {
		names = append(names, f.Name())
	}
	return names
}

// Decode returns the fault with that name and those parameters (a JSON object,
// or null for none). Unknown names and parameters are errors that name the
// nearest known word.
func Decode(name string, params json.RawMessage) (faults.Fault, error) {
	for _, f := range All() {
		if f.Name() == name {
			return decode(f, params)
		}
	}
	return nil, fmt.Errorf("unknown fault %q%s", name, Suggest(name, Names()))
}

func decode(zero faults.Fault, params json.RawMessage) (faults.Fault, error) {
	value := reflect.New(reflect.TypeOf(zero))
	if len(params) > 0 && string(params) != "null" {
		decoder := json.NewDecoder(bytes.NewReader(params))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(value.Interface()); err != nil {
			return nil, fmt.Errorf("fault %s: %w", zero.Name(), err)
		}
	}
	return value.Elem().Interface().(faults.Fault), nil
}

// Suggest returns " (did you mean …?)" with the nearest known word, or the list
// of all when none is near.
func Suggest(word string, known []string) string {
	best, distance := "", 4
	for _, k := range known {
		if d := levenshtein.Distance(word, k, nil); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return " (known: " + strings.Join(known, ", ") + ")"
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}
