package rundir_test

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/harness/rundir"
)

// What was stored beside a run is enough to repeat it, and a form that is newer than
// the reader is refused.
func TestHowARunIsRepeatedIsKept(t *testing.T) {
	t.Parallel()
	d, err := rundir.Create(rundir.Options{Root: t.TempDir()})
	assert.NilError(t, err)
	defer func() { assert.Check(t, d.Close()) }()
	_, err = rundir.ReadRepeat(d.Path())
	assert.ErrorIs(t, err, os.ErrNotExist)
	how := rundir.Repeat{Seed: "abc", Postgres: "auto", Cases: []rundir.Failed{{Scenario: "mine", Case: "hello", Seed: "abc"}}}
	assert.NilError(t, d.WriteRepeat(how))
	back, err := rundir.ReadRepeat(d.Path())
	assert.NilError(t, err)
	how.Schema = rundir.RepeatSchema
	assert.DeepEqual(t, back, how)
	assert.NilError(t, os.WriteFile(filepath.Join(d.Path(), "repeat.json"), []byte(`{"schema":"deadwire.repeat/9"}`), 0o600))
	_, err = rundir.ReadRepeat(d.Path())
	assert.ErrorContains(t, err, "deadwire.repeat/9")
}
