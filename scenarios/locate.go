package scenarios

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/santhosh-tekuri/jsonschema/v6" // draft 2020-12, and errors that say where and why as data
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"deadwire/faults/catalog"
)

//go:embed schema.json
var schemaBase []byte

// Schema returns the JSON Schema of a scenario file, with the parameters of
// every fault filled in from the catalogue.
func Schema() ([]byte, error) {
	var schema map[string]any
	if err := json.Unmarshal(schemaBase, &schema); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	schema["$defs"].(map[string]any)["fault"] = catalog.Schema()
	return json.MarshalIndent(schema, "", "  ")
}

const schemaName = "deadwire-scenario.json"

func compiled() (*jsonschema.Schema, error) {
	text, err := Schema()
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(schemaName, doc); err != nil {
		return nil, err
	}
	return compiler.Compile(schemaName)
}

// validate checks the file against the schema and reports the first problem by
// its place.
func (s source) validate(plain []byte) error {
	schema, err := compiled()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	if err != nil {
		return err
	}
	problem, ok := schema.Validate(value).(*jsonschema.ValidationError)
	if !ok {
		return nil
	}
	leaf := deepest(problem)
	where := leaf.InstanceLocation
	if extra, ok := leaf.ErrorKind.(*kind.AdditionalProperties); ok {
		word := extra.Properties[0]
		return fmt.Errorf("%s:%d: unknown field %q in %s%s", s.file, s.line(append(slices.Clone(where), word)...), word, place(where),
			catalog.Suggest(word, s.knownAt(schema, leaf)))
	}
	text := leaf.ErrorKind.LocalizedString(message.NewPrinter(language.English))
	return fmt.Errorf("%s:%d: %s: %s", s.file, s.line(where...), place(where), text)
}

// deepest follows the causes to the one that says most: the longest location,
// and at the same depth an unknown field before anything else.
func deepest(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	best := e
	score := func(v *jsonschema.ValidationError) int {
		n := 2 * len(v.InstanceLocation)
		if _, ok := v.ErrorKind.(*kind.AdditionalProperties); ok {
			n++
		}
		return n
	}
	for _, cause := range e.Causes {
		if d := deepest(cause); len(best.Causes) > 0 || score(d) > score(best) {
			if best == e || score(d) > score(best) {
				best = d
			}
		}
	}
	return best
}

// knownAt returns the field names that the schema allows where e occurred.
func (s source) knownAt(root *jsonschema.Schema, e *jsonschema.ValidationError) []string {
	at := findSchema(root, e.SchemaURL, map[*jsonschema.Schema]bool{})
	if at == nil {
		return nil
	}
	var known []string
	for name := range at.Properties {
		known = append(known, name)
	}
	slices.Sort(known)
	return known
}

func findSchema(at *jsonschema.Schema, location string, seen map[*jsonschema.Schema]bool) *jsonschema.Schema {
	if at == nil || seen[at] {
		return nil
	}
	seen[at] = true
	if at.Location == location {
		return at
	}
	next := append(slices.Clone(at.OneOf), at.Ref, at.Items2020)
	for _, p := range at.Properties {
		next = append(next, p)
	}
	if extra, ok := at.AdditionalProperties.(*jsonschema.Schema); ok {
		next = append(next, extra)
	}
	if items, ok := at.Items.(*jsonschema.Schema); ok {
		next = append(next, items)
	}
	for _, n := range next {
		if found := findSchema(n, location, seen); found != nil {
			return found
		}
	}
	return nil
}

func place(path []string) string {
	if len(path) == 0 {
		return "the scenario"
	}
	return strings.Join(path, ".")
}

// line returns the line of the value at that path, or of its nearest parent.
func (s source) line(path ...string) int {
	if len(s.doc.Docs) == 0 {
		return 1
	}
	node, line := s.doc.Docs[0].Body, 1
	for _, step := range path {
		next, at := child(node, step)
		if next == nil {
			break
		}
		node, line = next, at
	}
	return line
}

// child returns the value under that key or index, and the line where it stands.
func child(node ast.Node, step string) (ast.Node, int) {
	switch n := node.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			if v.Key.String() == step {
				return v.Value, v.Key.GetToken().Position.Line
			}
		}
	case *ast.MappingValueNode:
		if n.Key.String() == step {
			return n.Value, n.Key.GetToken().Position.Line
		}
	case *ast.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i < len(n.Values) {
			return n.Values[i], n.Values[i].GetToken().Position.Line
		}
	}
	return nil, 0
}

// keys returns the keys of the mapping at that path, in the order of the file.
func (s source) keys(path ...string) []string {
	node := s.doc.Docs[0].Body
	for _, step := range path {
		node, _ = child(node, step)
	}
	var keys []string
	switch n := node.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			keys = append(keys, v.Key.String())
		}
	case *ast.MappingValueNode:
		keys = append(keys, n.Key.String())
	}
	return keys
}

// find returns the first line after from on which word stands, or from.
func (s source) find(word string, from int) int {
	for i, line := range strings.Split(s.text, "\n") {
		if i+1 >= from && strings.Contains(line, word) {
			return i + 1
		}
	}
	return from
}
