package subject_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"deadwire/harness/event"
	"deadwire/harness/subject"
	"deadwire/harness/wait"
	"deadwire/harness/witness"

	"gotest.tools/v3/assert"
)

const daemonScript = `
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("daemon", os.getpid(), flush=True)
        time.sleep(60)
    os._exit(0)
time.sleep(0.2)
`

func TestDaemonStaysBelowAndEndsWithTheSubject(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b bench) {
		i := b.start(t, subject.Options{}, python, "-c", daemonScript)
		daemon := b.number(t, "daemon")
		_, err := i.Wait(t.Context())
		assert.NilError(t, err)
		b.await(t, "the daemon", ofKind(event.ProcessStarted, daemon))
		assert.Assert(t, i.Alive(daemon))
		assert.NilError(t, i.Close(t.Context()))
		assert.Equal(t, b.await(t, "exit", ofKind(event.ProcessExited, daemon)).Process.Signal, "SIGKILL")
		assert.ErrorIs(t, syscall.Kill(daemon, 0), syscall.ESRCH)
	})
}

func TestCloseEndsATreeThatKeepsForking(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b bench) {
		const script = `
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        os.setsid()
        time.sleep(0.2)
        os._exit(0)
    time.sleep(0.005)
`
		i := b.start(t, subject.Options{}, python, "-c", script)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		assert.NilError(t, wait.For(ctx, "five processes", func(context.Context) wait.Answer {
			if n := len(i.PIDs()); n < 5 {
				return wait.NotYet("%d", n)
			}
			return wait.Done()
		}))
		assert.NilError(t, i.Close(t.Context()))
		started, exited := map[int]int{}, map[int]int{}
		for _, e := range b.journal.Events() {
			switch e.Kind { //nolint:exhaustive // only two are counted
			case event.ProcessStarted:
				started[e.PID]++
			case event.ProcessExited:
				exited[e.PID]++
			}
		}
		assert.DeepEqual(t, started, exited)
		for pid := range started {
			assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
		}
	})
}

// playStarter starts a subject that would live on, says its pid, and waits.
func playStarter() int {
	journal := event.NewJournal(nil, 0)
	options := witness.Options{Recorder: journal, Disabled: os.Getenv("HOLDERS") != ""}
	i, err := subject.Start(context.Background(), subject.Command{Path: "/bin/sleep", Args: []string{"60"}},
		subject.Options{Recorder: journal, Witness: witness.New(options)})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(i.PID())
	<-i.Exited()
	return 0
}

func TestKilledStarterLeavesNoRoot(t *testing.T) {
	t.Parallel()
	for name, variable := range map[string]string{"exact": "HOLDERS=", "holders": "HOLDERS=1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			starter := exec.Command("/proc/self/exe")
			starter.Env = append(os.Environ(), roleVariable+"=starter", variable)
			out, err := starter.StdoutPipe()
			assert.NilError(t, err)
			assert.NilError(t, starter.Start())
			var root int
			_, err = fmt.Fscan(out, &root)
			assert.NilError(t, err)
			assert.NilError(t, syscall.Kill(root, 0))
			assert.NilError(t, starter.Process.Kill())
			_ = starter.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			assert.NilError(t, wait.For(ctx, "the root to be gone", func(context.Context) wait.Answer {
				stat, err := os.ReadFile("/proc/" + strconv.Itoa(root) + "/stat")
				if err != nil || bytes.Contains(stat, []byte(") Z ")) {
					return wait.Done()
				}
				return wait.NotYet("%s", stat)
			}))
		})
	}
}
