package witness

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/harness/event"
	"deadwire/harness/wait"
)

// program starts a Python program that ends with the test.
func program(t *testing.T, text string) (pid int) {
	t.Helper()
	python, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		t.Skip("no /usr/bin/python3 here")
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", text)
	assert.NilError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// A lone thread that waits for a lock of its own memory is told from one that another
// process can wake, and from one that only sleeps.
func TestStrandedIsOnlyWhoWaitsForAThreadOfItsOwn(t *testing.T) {
	t.Parallel()
	lost := program(t, "import threading; threading.Event().wait()")
	shared := program(t, "import multiprocessing; multiprocessing.Semaphore(0).acquire()")
	asleep := program(t, "import time; time.sleep(1000)")
	journal, waits := event.NewJournal(nil, 0), newStranded()
	err := wait.For(t.Context(), "the lone thread to have waited for a while", func(context.Context) wait.Answer {
		waits.look(journal, []int{lost, shared, asleep})
		if len(journal.Events()) < 2 {
			return wait.NotYet("%d events", len(journal.Events()))
		}
		return wait.Done()
	})
	if text, readable := callOf(lost); err != nil && !readable {
		t.Skip("what a process waits in may not be read here: " + text)
	}
	assert.NilError(t, err)
	events := journal.Events()
	for _, e := range events {
		assert.Equal(t, e.PID, lost)
		assert.Equal(t, e.Stranded.ParentThreads, threads(e.Stranded.PPID))
	}
	assert.Assert(t, events[0].Stranded.For >= strandedAfter && events[1].Stranded.For >= 2*events[0].Stranded.For, "%v, %v", events[0].Stranded.For, events[1].Stranded.For)
	assert.Assert(t, events[1].At-events[0].At >= 500*time.Millisecond)
}
