package command_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/command"
	"deadwire/pipeline/dispatch"
)

func TestRunIsOnePassWithOneLedgerRowOverAll(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.start("", "run", "--json", "--source", r.catalog, "--reference", filepath.Join(r.catalog, "no-such.json"))
	assert.Equal(t, p.wait(), command.CodeReference, p.stderr.String())
	assert.Equal(t, r.count("pilot_run_ledger")+r.count("image_evidence"), 0, "stage 0 failed before any card was touched")
	p = r.start("", "run", "--json", "--source", r.catalog, "--batch", "5")
	assert.Equal(t, p.wait(), 0, p.stderr.String())
	assert.Equal(t, p.result()["status"], dispatch.Complete)
	assert.Assert(t, p.result()["channels"].(map[string]any)["stage-d-join-key-v1"].(float64) > 0)
	assert.Equal(t, r.count("pilot_run_ledger where command = 'run_pipeline' and status = 'completed' and counters ->> 'status' = 'complete'"), 1)
	assert.Equal(t, r.count("pilot_run_ledger where status <> 'completed'"), 0)
	r.assertConverged()
}

func TestRunThatCannotGoOnFailsItsRow(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.start("job-fails", "run", "--json", "--source", r.catalog)
	assert.Equal(t, p.wait(), command.CodeError)
	assert.Equal(t, r.count("pilot_run_ledger where command = 'run_pipeline' and status = 'failed' and failure_reason like '%compute gave up%'"), 1)
	r.resume()
	r.assertConverged()
}

func TestStatusWatchesUntilToldToStop(t *testing.T) {
	t.Parallel()
	r := setup(t)
	out := &lockedBuffer{}
	p := r.command("", "status", "--watch", "--every", "100ms")
	p.cmd.Stdout = out
	p.run()
	p.until(func() bool { return strings.Count(out.String(), "throttled  0\n") >= 3 })
	assert.NilError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, p.wait(), 0, p.stderr.String())
}
