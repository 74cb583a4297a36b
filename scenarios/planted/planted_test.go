package planted

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// Whoever changes a line in which a bug is planted learns it here.
func TestEveryBugStillHasItsPlace(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot(t.Context())
	assert.NilError(t, err)
	files, err := overlay(root)
	assert.NilError(t, err)
	for path, text := range files {
		_, err := parser.ParseFile(token.NewFileSet(), path, text, parser.AllErrors)
		assert.NilError(t, err)
		assert.Assert(t, strings.HasPrefix(path, "pipeline/"), path)
	}
}

func TestAnUnknownBugIsRefused(t *testing.T) {
	t.Parallel()
	_, err := Build(t.Context(), t.TempDir(), "no-such-bug")
	assert.ErrorContains(t, err, "unknown bug \"no-such-bug\": want one of cancelled-ledger, ")
}
