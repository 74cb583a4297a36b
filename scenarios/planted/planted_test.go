package planted

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/harness"
	"deadwire/harness/pg/local"
	"deadwire/harness/rundir"
	"deadwire/harness/verdict"
	"deadwire/harness/witness"
	"deadwire/scenarios"
	"deadwire/scenarios/workload"
)

func TestMain(m *testing.M) {
	if code, launched := witness.Main(); launched {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func TestAnUnknownBugIsRefused(t *testing.T) {
	t.Parallel()
	_, err := Build(t.Context(), t.TempDir(), "no-such-bug")
	assert.ErrorContains(t, err, "unknown bug \"no-such-bug\": want one of cancelled-ledger, ")
}

// Each bug's scenario fails by the bug's own promise where it is planted, and only
// there.
func TestAScenarioTellsEachBugFromTheSoundProgram(t *testing.T) {
	t.Parallel()
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	built, err := Build(ctx, t.TempDir())
	assert.NilError(t, err)
	rig, err := harness.New(ctx, harness.Config{Provider: local.New(local.Options{})})
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, rig.Close(context.Background())) })
	run := func(bug string) *scenarios.Runner {
		r := runner(t, rig, built[bug])
		r.Lanes = bug + "-"
		return r
	}
	sound := run("")
	t.Run("bugs", func(t *testing.T) {
		for _, bug := range Bugs() {
			planted := run(bug.Name)
			t.Run(bug.Name, func(t *testing.T) {
				t.Parallel()
				s, err := scenarios.ReadFile(filepath.Join("testdata", bug.Name+".yaml"))
				assert.NilError(t, err)
				good := sound.Run(ctx, s, s.Cases[0], 0)
				assert.Check(t, good.Verdict == verdict.Pass, "sound: %s: %s", good.Verdict, good.Reason)
				bad := planted.Run(ctx, s, s.Cases[0], 0)
				assert.Check(t, bad.Verdict == verdict.Fail, "planted: %s: %s", bad.Verdict, bad.Reason)
				again, err := scenarios.Recheck(planted.Dir.Path(), bad)
				assert.Check(t, err)
				assert.Check(t, again.Verdict == bad.Verdict && again.Reason == bad.Reason, "judged again: %s: %s", again.Verdict, again.Reason)
				assert.Check(t, strings.Contains(fmt.Sprintf("%+v %s %s", bad.Findings, bad.Reason, bad.Error), bug.Promise), "%s: %s", bug.Promise, bad.Reason)
			})
		}
	})
}

// runner runs one program's scenarios in a run folder of its own.
func runner(t *testing.T, rig *harness.Rig, path string) *scenarios.Runner {
	t.Helper()
	dir, err := rundir.Create(rundir.Options{Root: t.TempDir(), Version: "test", Seed: "planted"})
	assert.NilError(t, err)
	catalogues := dir.File("catalogues")
	assert.NilError(t, os.Mkdir(catalogues, 0o700))
	program := workload.Program{Path: path, Seam: true}
	store, err := workload.NewStore(program, catalogues)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, store.Close(context.Background())) })
	t.Cleanup(func() { assert.Check(t, dir.Close()) })
	return &scenarios.Runner{Rig: rig, Store: store, Subject: program, Dir: dir, Seed: "planted"}
}
