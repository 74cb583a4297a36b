package command_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"
)

func TestKilledWorkerFailsTheBatchByNameAndResumeConverges(t *testing.T) {
	t.Parallel()
	r := setup(t)
	release := r.held()
	p := r.stream("job-waits")
	waiting := int(p.logged("waiting")["worker"].(float64))
	pid := p.workers()[waiting]
	assert.NilError(t, syscall.Kill(pid, syscall.SIGKILL))
	release()
	assert.Equal(t, p.wait(), 1)
	cause := fmt.Sprintf("worker %d (pid %d) killed by SIGKILL", waiting, pid)
	assert.Equal(t, p.lastLine(), "conveyor: stream: batch 1: stage c: "+cause)
	assert.Assert(t, strings.Contains(r.text("select failure_reason from pilot_run_ledger where status = 'failed'"), cause))
	assert.Equal(t, p.result()["ledger_state"], "failed")
	for _, worker := range p.workers() {
		assert.Assert(t, gone(worker))
	}
	r.resume()
	r.assertConverged()
}

func TestPanickingWorkerFailsTheBatchWithThePanic(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.stream("job-panics")
	assert.Equal(t, p.wait(), 1)
	assert.Assert(t, strings.Contains(r.text("select failure_reason from pilot_run_ledger"), "exited with code 2: panic: no such card"))
	r.resume()
	r.assertConverged()
}

func TestFailingJobFailsTheBatchButNoWorker(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.stream("job-fails")
	assert.Equal(t, p.wait(), 1)
	assert.Assert(t, strings.Contains(p.lastLine(), "compute gave up"), p.lastLine())
	assert.Equal(t, r.count("pilot_run_ledger where status = 'failed' and failure_reason like '%compute gave up%'"), 1)
	r.assertAtRest()
}

func TestKilledCoordinatorLeavesARunningRowAndNothingElse(t *testing.T) {
	t.Parallel()
	r := setup(t)
	release := r.held()
	p := r.stream("job-waits")
	p.logged("waiting")
	workers := p.workers()
	assert.NilError(t, p.cmd.Process.Kill())
	release()
	p.wait()
	for _, pid := range workers {
		poll.WaitOn(t, func(poll.LogT) poll.Result {
			if gone(pid) || zombie(pid) {
				return poll.Success()
			}
			return poll.Continue("worker %d lives", pid)
		})
	}
	assert.Equal(t, r.count("pilot_run_ledger where status = 'running'"), 1)
	r.assertAtRest()
	r.resume()
	r.assertConverged()
	assert.Equal(t, r.count("pilot_run_ledger where status = 'failed' and failure_reason like 'owner gone: pid %'"), 1, "the next start says so")
	assert.Equal(t, r.count("pilot_run_ledger where status = 'running'"), 0)
}

// zombie: an orphan that nobody reaps yet, where the first process does not.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func TestTerminateOnTheInheritedSessionEndsTheCoordinators(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.stream("worker-terminates")
	assert.Equal(t, p.wait(), 1)
	assert.Assert(t, strings.HasPrefix(p.lastLine(), "conveyor: stream: batch 1: partition: "), p.lastLine())
	assert.Equal(t, p.result()["ledger_state"], "failed")
	assert.Equal(t, r.count("pilot_run_ledger where status = 'failed' and failure_reason like '%partition: %'"), 1)
	r.resume()
	r.assertConverged()
}

func TestInheritedButUntouchedSessionDoesNoHarm(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.stream("worker-holds", "--recycle-after", "3")
	assert.Equal(t, p.wait(), 0, p.stderr.String())
	r.assertConverged()
}

func TestSessionClosedByItsOwnerLeavesTheRowRunning(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.stream("owner-closes")
	assert.Equal(t, p.wait(), 1)
	for _, part := range []string{"partition: session was closed by its owner", "stays running: session was closed by its owner"} {
		assert.Assert(t, strings.Contains(p.lastLine(), part), p.lastLine())
	}
	assert.Equal(t, r.count("pilot_run_ledger where status = 'running'"), 1)
	assert.Equal(t, p.result()["ledger_state"], "running")
	r.resume()
	r.assertConverged()
}

func TestWorkerWithoutItsSessionFailsTheBatch(t *testing.T) {
	t.Parallel()
	r := setup(t)
	release := r.held()
	p := r.stream("job-waits", "--workers", "1")
	p.logged("waiting")
	assert.Equal(t, r.count(`(select pg_terminate_backend(pid, 5000) from pg_stat_activity
		where application_name = 'conveyor/worker-1' and datname = current_database()) gone`), 1)
	release()
	assert.Equal(t, p.wait(), 1)
	assert.Equal(t, r.count("pilot_run_ledger where status = 'failed' and failure_reason like '%stage c: %persist: %'"), 1)
	r.resume()
	r.assertConverged()
}

func TestSignalFailsTheBatchTruthfullyAndInTime(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			release := r.held()
			defer release()
			p := r.stream("job-waits")
			p.logged("waiting")
			assert.NilError(t, p.cmd.Process.Signal(sig))
			began := time.Now()
			assert.Equal(t, p.wait(), 1)
			r.assertInTime(time.Since(began))
			assert.Assert(t, strings.Contains(p.lastLine(), sig.String()), p.lastLine())
			assert.Equal(t, r.count("pilot_run_ledger where status = 'failed' and failure_reason like '%"+sig.String()+"%'"), 1)
			for _, pid := range p.workers() {
				assert.Assert(t, gone(pid))
			}
			release()
			r.resume()
			r.assertConverged()
		})
	}
}
