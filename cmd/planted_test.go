package cmd

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/scenarios/planted"
)

// Whoever changes a line in which a bug is planted learns it here, before the long
// tests do.
func TestEveryPlantedBugHasItsPlace(t *testing.T) {
	t.Parallel()
	assert.NilError(t, planted.Check(t.Context()))
}

// The programs that users get are built from sources without any planted bug, and
// do not know how to plant one.
func TestNoProgramForUsersHasAPlantedBug(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./conveyor", "./deadwire").Output()
	assert.NilError(t, err)
	for line := range strings.Lines(string(out)) {
		assert.Assert(t, !strings.HasPrefix(line, "deadwire/scenarios/planted"), line)
	}
	for _, dir := range []string{"../pipeline", "conveyor", "deadwire"} {
		assert.NilError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			text, err := os.ReadFile(path)
			assert.Assert(t, !strings.Contains(string(text), "planted("+`"`), path)
			return err
		}))
	}
}
