package catalog_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/faults"
	"deadwire/faults/catalog"
	"deadwire/faults/fork"
	"deadwire/faults/network"
)

// faultTypes finds every exported type with a method Inject below faults.
func faultTypes(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../*/*.go")
	assert.NilError(t, err)
	var found []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		assert.NilError(t, err)
		for _, decl := range parsed.Decls {
			method, ok := decl.(*ast.FuncDecl)
			if !ok || method.Name.Name != "Inject" || method.Recv == nil {
				continue
			}
			if receiver, ok := method.Recv.List[0].Type.(*ast.Ident); ok {
				found = append(found, parsed.Name.Name+"."+receiver.Name)
			}
		}
	}
	return found
}

func TestEveryFaultTypeIsListed(t *testing.T) {
	t.Parallel()
	var listed []string
	for _, f := range catalog.All() {
		listed = append(listed, reflect.TypeOf(f).String())
	}
	types := faultTypes(t)
	assert.Assert(t, len(types) >= 14)
	for _, name := range types {
		assert.Check(t, slices.Contains(listed, name), "%s is defined, not listed", name)
	}
	assert.Equal(t, len(types), len(listed))
}

func TestNamesAreUniqueAndOrdered(t *testing.T) {
	t.Parallel()
	names := catalog.Names()
	assert.Assert(t, slices.IsSorted(names))
	assert.Equal(t, len(slices.Compact(slices.Clone(names))), len(names))
}

func TestDecodeIsStrict(t *testing.T) {
	t.Parallel()
	f, err := catalog.Decode("network.cut", json.RawMessage(`{"manner":"rst","at":{"verb":"COMMIT"},"skip":2}`))
	assert.NilError(t, err)
	assert.DeepEqual(t, f, network.Cut{Manner: "rst", At: faults.MessageMatch{Verb: "COMMIT"}, Skip: 2})

	f, err = catalog.Decode("network.down", nil)
	assert.NilError(t, err)
	assert.Equal(t, f, network.Down{})

	_, err = catalog.Decode("network.cutt", nil)
	assert.ErrorContains(t, err, `did you mean "network.cut"`)
	_, err = catalog.Decode("fork", json.RawMessage(`{"doo":"terminate"}`))
	assert.ErrorContains(t, err, `unknown field "doo"`)
}

func TestDescriptionsNameEveryParameter(t *testing.T) {
	t.Parallel()
	for _, f := range catalog.All() {
		rt := reflect.TypeOf(f)
		assert.Equal(t, len(catalog.Parameters(f)), rt.NumField())
		for i := range rt.NumField() {
			assert.Check(t, rt.Field(i).Tag.Get("doc") != "" || rt.Field(i).Type.Kind() == reflect.Struct, "%s.%s has no doc", f.Name(), rt.Field(i).Name)
		}
	}
	properties := catalog.Schema()["properties"].(map[string]any)
	assert.Equal(t, len(properties), len(catalog.All())+1) // and `when`
}

func TestForkActsAreWhatTheSchemaOffers(t *testing.T) {
	t.Parallel()
	field, _ := reflect.TypeOf(fork.Fork{}).FieldByName("Do")
	want := []string{fork.Terminate, fork.TerminateAtExit, fork.Query, fork.Shutdown, fork.Hold, fork.Close, fork.Discard, fork.CloseBeforeStart}
	assert.DeepEqual(t, strings.Split(field.Tag.Get("enum"), ","), want)
}
