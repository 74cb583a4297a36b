package main_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gotest.tools/v3/assert"

	"deadwire/harness/verdict"
)

// assertContract checks what --json wrote against the schema of the contract.
func assertContract(t *testing.T, result []byte) {
	t.Helper()
	text, err := os.ReadFile("testdata/run.schema.json")
	assert.NilError(t, err)
	plain, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	assert.NilError(t, err)
	const name = "mem:///run.schema.json" // a file's name would be read as a URL, in which a space is a fault
	compiler := jsonschema.NewCompiler()
	assert.NilError(t, compiler.AddResource(name, plain))
	schema, err := compiler.Compile(name)
	assert.NilError(t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(result))
	assert.NilError(t, err)
	assert.NilError(t, schema.Validate(value), "%s", result)
}

// A case of each kind: a process accused, a server that ended sessions, a fault on
// the way with a finding beside it, a process that died, one that failed.
func TestTheJSONFileKeepsItsContract(t *testing.T) {
	t.Parallel()
	wrong := `name: wrong
story: It completes, and is expected to be killed.
command: [psql, -c, "select 1"]
cases: {plain: {expect: {outcome: killed}}}
`
	file := t.TempDir() + "/wrong.yaml"
	assert.NilError(t, os.WriteFile(file, []byte(wrong), 0o600))
	run, out, code := deadwire(t, "run", "inherited-terminate/broken", "admin-terminate/idle", "connection-dropped/rst-at-commit-answer",
		"held-by-worker/broken", file)
	assert.Equal(t, code, verdict.ExitFail, out)
	assert.Equal(t, run.Totals.Pass, 4, out)
	assert.Equal(t, run.Totals.Fail, 1, out)
	rules := map[string]bool{}
	for _, c := range run.Cases {
		for _, e := range c.Endings {
			rules[e.Rule] = true
		}
		for _, f := range c.Findings {
			rules[f.Rule] = true
		}
	}
	for _, rule := range []string{"fork.inherited-terminate", "backend.admin-terminate", "network.reset", "txn.ambiguous-commit", "fork.held-by-descendant", "close.ordinary"} {
		assert.Check(t, rules[rule], "no ending or finding of %s", rule)
	}
}
