package scenarios

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"        // keeps the line of every value, which a bad scenario's author needs
	"github.com/goccy/go-yaml/ast"    //
	"github.com/goccy/go-yaml/parser" //

	"deadwire/faults"
	"deadwire/faults/catalog"
	"deadwire/harness/diagnose"
)

//go:embed regression/*.yaml
var builtin embed.FS

// Builtin returns the scenarios that ship with deadwire, ordered by name.
func Builtin() ([]Scenario, error) {
	entries, err := builtin.ReadDir("regression")
	if err != nil {
		return nil, err
	}
	var all []Scenario
	for _, entry := range entries {
		name := "regression/" + entry.Name()
		text, err := builtin.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s, err := Parse("scenarios/"+name, text)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Scenario) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// ReadFile reads a scenario of the user's own.
func ReadFile(file string) (Scenario, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Scenario{}, fmt.Errorf("read scenario: %w", err)
	}
	return Parse(file, text)
}

// Parse reads one scenario. Every error names the file and the line, and for an
// unknown word the nearest known one.
func Parse(file string, text []byte) (Scenario, error) {
	doc, err := parser.ParseBytes(text, 0)
	if err != nil {
		return Scenario{}, fmt.Errorf("%s:%s", file, firstLines(yaml.FormatError(err, false, true)))
	}
	src := source{file: file, text: string(text), doc: doc}
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		return Scenario{}, fmt.Errorf("%s:%s", file, firstLines(yaml.FormatError(err, false, true)))
	}
	if value == nil {
		return Scenario{}, fmt.Errorf("%s: the file is empty", file)
	}
	// By way of JSON, so that the schema and the decoder see the same value.
	plain, err := json.Marshal(value)
	if err != nil {
		return Scenario{}, fmt.Errorf("%s: %w", file, err)
	}
	if err := src.validate(plain); err != nil {
		return Scenario{}, err
	}
	return src.decode(plain)
}

func (s source) decode(plain []byte) (Scenario, error) {
	var raw struct {
		Scenario
		Cases map[string]Case `json:"cases"`
	}
	if err := strict(plain, &raw); err != nil {
		return Scenario{}, fmt.Errorf("%s: %w", s.file, err)
	}
	out := raw.Scenario
	out.File, out.Line = s.file, s.line("name")
	if len(out.Command) == 0 && out.Subject == "" {
		out.Subject = "conveyor"
	}
	out.Workload = out.Workload.withDefaults()
	for _, name := range s.keys("cases") {
		c := raw.Cases[name]
		c.Name, c.Line = name, s.line("cases", name)
		if err := s.check(c); err != nil {
			return Scenario{}, err
		}
		out.Cases = append(out.Cases, c)
	}
	return out, nil
}

// check refuses words that the schema cannot know: rules, promises, patterns.
func (s source) check(c Case) error {
	expects := []Expect{c.Expect}
	if c.Resume != nil {
		expects = append(expects, c.Resume.Expect)
	}
	for _, e := range expects {
		for _, m := range e.Endings {
			if err := s.checkRule(c, m.Rule); err != nil {
				return err
			}
		}
		for _, m := range e.Findings {
			if err := s.checkRule(c, m.Rule); err != nil {
				return err
			}
		}
		for name := range e.Invariants {
			if !slices.Contains(promiseNames(), name) {
				return fmt.Errorf("%s:%d: unknown invariant %q%s", s.file, s.find(name, c.Line), name, catalog.Suggest(name, promiseNames()))
			}
		}
		if _, err := regexp.Compile(e.Error); err != nil {
			return fmt.Errorf("%s:%d: expect.error: %w", s.file, c.Line, err)
		}
	}
	return nil
}

func (s source) checkRule(c Case, id string) error {
	if _, ok := diagnose.Lookup(id); ok {
		return nil
	}
	var known []string
	for _, r := range diagnose.Rules() {
		known = append(known, r.ID)
	}
	return fmt.Errorf("%s:%d: unknown rule %q%s", s.file, s.find(id, c.Line), id, catalog.Suggest(id, known))
}

// UnmarshalJSON reads one entry of `faults:`: a fault by its name, and when.
func (f *FaultStep) UnmarshalJSON(text []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	for name, params := range raw {
		if name == "when" {
			if err := strict(params, &f.When); err != nil {
				return fmt.Errorf("when: %w", err)
			}
			continue
		}
		if f.Fault != nil {
			return fmt.Errorf("two faults in one entry: %s and %s", f.Fault.Name(), name)
		}
		fault, err := catalog.Decode(name, params)
		if err != nil {
			return err
		}
		f.Fault = fault
	}
	if f.Fault == nil {
		return errors.New("an entry of faults names no fault")
	}
	return nil
}

// MarshalJSON writes the entry as it is read.
func (f FaultStep) MarshalJSON() ([]byte, error) {
	entry := map[string]any{f.Fault.Name(): f.Fault}
	if f.When != (faults.Trigger{}) {
		entry["when"] = f.When
	}
	return json.Marshal(entry)
}

func strict(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func firstLines(text string) string {
	return strings.TrimPrefix(strings.TrimSpace(text), "[")
}

// source is a parsed file that can tell the line of a value.
type source struct {
	file string
	text string
	doc  *ast.File
}
