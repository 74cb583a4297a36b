package scenarios

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/goccy/go-yaml/ast"
	"github.com/santhosh-tekuri/jsonschema/v6" // draft 2020-12, and errors that say where and why as data

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

// schemaName is an absolute URL: a relative one would be taken as a file of the folder that
// we were started in, whose name may hold a space.
const schemaName = "mem:///deadwire-scenario.json"

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

// length returns how many entries the sequence at that path has, 0 when there
// is none.
func (s source) length(path ...string) int {
	node := s.doc.Docs[0].Body
	for _, step := range path {
		node, _ = child(node, step)
	}
	if n, ok := node.(*ast.SequenceNode); ok {
		return len(n.Values)
	}
	return 0
}
