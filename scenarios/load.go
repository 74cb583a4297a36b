package scenarios

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"        // keeps the line of every value, which a bad scenario's author needs
	"github.com/goccy/go-yaml/ast"    //
	"github.com/goccy/go-yaml/parser" //

	"deadwire/faults"
	"deadwire/faults/catalog"
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
	opened, err := os.Open(file)
	if err != nil {
		return Scenario{}, fmt.Errorf("read scenario: %w", err)
	}
	defer func() { _ = opened.Close() }() // opened for reading
	text, err := io.ReadAll(io.LimitReader(opened, fileMax+1))
	if err != nil {
		return Scenario{}, fmt.Errorf("read scenario: %w", err)
	}
	return Parse(file, text)
}

// fileMax bounds a scenario file, in bytes: the largest built-in one has 8 KiB.
const fileMax = 256 << 10

// Parse reads one scenario. Every error names the file and the line, and for an
// unknown word the nearest known one.
func Parse(file string, text []byte) (Scenario, error) {
	if len(text) > fileMax {
		return Scenario{}, fmt.Errorf("%s: the file is larger than %d KiB, which no scenario needs", file, fileMax>>10)
	}
	doc, err := parser.ParseBytes(text, 0)
	if err != nil {
		return Scenario{}, syntax(file, err)
	}
	src := source{file: file, doc: doc}
	if len(doc.Docs) > 1 {
		return Scenario{}, src.errorf([]string{}, "a second document begins after it: one file holds one scenario")
	}
	if err := src.checkAliases(); err != nil {
		return Scenario{}, err
	}
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		return Scenario{}, syntax(file, err)
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
	if err := src.checkEntries(); err != nil {
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
	if err := s.checkLimit(out.Limit); err != nil {
		return Scenario{}, err
	}
	for _, name := range s.keys("cases") {
		c := raw.Cases[name]
		c.Name, c.Line = name, s.line("cases", name)
		if err := errors.Join(s.check(c), s.checkServer(out, c)); err != nil {
			return Scenario{}, err
		}
		out.Cases = append(out.Cases, c)
	}
	return out, nil
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

// syntax says a YAML error in one line, with its place in the file.
func syntax(file string, err error) error {
	var located yaml.Error
	if !errors.As(err, &located) || located.GetToken() == nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return fmt.Errorf("%s:%d: %s", file, located.GetToken().Position.Line, located.GetMessage())
}

// source is a parsed file that can tell the line of a value.
type source struct {
	file string
	doc  *ast.File
}
