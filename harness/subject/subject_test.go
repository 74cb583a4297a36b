package subject_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"deadwire/harness/event"
	"deadwire/harness/subject"
	"deadwire/harness/witness"

	"gotest.tools/v3/assert"
)

const python = "/usr/bin/python3"

// bench is what each test starts subjects with.
type bench struct {
	journal *event.Journal
	witness *witness.Witness
}

// modes runs a test under both witnesses: all that it says must hold in both.
func modes(t *testing.T, test func(*testing.T, bench)) {
	for name, disabled := range map[string]bool{"exact": false, "holders": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newBench(t, disabled))
		})
	}
}

func newBench(t *testing.T, holders bool) bench {
	journal := event.NewJournal(nil, 0)
	w := witness.New(witness.Options{Recorder: journal, Disabled: holders})
	t.Cleanup(func() { assert.NilError(t, w.Close(context.WithoutCancel(t.Context()))) })
	t.Cleanup(func() {
		if t.Failed() {
			for _, e := range journal.Events() {
				t.Logf("%d %v %s pid %d %+v", e.Seq, e.At, e.Kind, e.PID, e.Process)
			}
		}
	})
	return bench{journal, w}
}

func (b bench) start(t *testing.T, options subject.Options, path string, args ...string) *subject.Instance {
	t.Helper()
	options.Recorder, options.Witness = b.journal, b.witness
	i, err := subject.Start(t.Context(), subject.Command{Path: path, Args: args}, options)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, i.Close(context.WithoutCancel(t.Context()))) })
	return i
}

// startWithInput also returns a function that writes one byte to the subject.
func (b bench) startWithInput(t *testing.T, path string, args ...string) (release func(), i *subject.Instance) {
	t.Helper()
	theirs, ours, err := os.Pipe()
	assert.NilError(t, err)
	t.Cleanup(func() { _ = ours.Close() })
	i, err = subject.Start(t.Context(), subject.Command{Path: path, Args: args, Stdin: theirs},
		subject.Options{Recorder: b.journal, Witness: b.witness})
	assert.NilError(t, errors.Join(err, theirs.Close()))
	t.Cleanup(func() { assert.NilError(t, i.Close(context.WithoutCancel(t.Context()))) })
	return func() {
		_, err := ours.Write([]byte("."))
		assert.NilError(t, err)
	}, i
}

func (b bench) await(t *testing.T, what string, match func(event.Event) bool) event.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	e, err := b.journal.Await(ctx, 0, what, match)
	assert.NilError(t, err)
	return e
}

func (b bench) all(match func(event.Event) bool) []event.Event {
	return slices.DeleteFunc(b.journal.Events(), func(e event.Event) bool { return !match(e) })
}

func ofKind(kind event.Kind, pid int) func(event.Event) bool {
	return func(e event.Event) bool { return e.Kind == kind && e.PID == pid }
}

func printed(prefix string) func(event.Event) bool {
	return func(e event.Event) bool {
		return e.Kind == event.SubjectOutput && strings.HasPrefix(e.Output.Text, prefix)
	}
}

// number returns the pid that a subject printed behind a word.
func (b bench) number(t *testing.T, word string) int {
	t.Helper()
	line := b.await(t, word, printed(word+" ")).Output.Text
	n, err := strconv.Atoi(strings.Fields(line)[1])
	assert.NilError(t, err)
	return n
}

func TestRootIsRecordedOnceUnderItsOwnCommandLine(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b bench) {
		i := b.start(t, subject.Options{}, "/bin/sh", "-c", "echo out; echo err >&2; exit 7")
		exit, err := i.Wait(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, exit, subject.Exit{Code: 7})

		started := b.all(func(e event.Event) bool { return e.Kind == event.ProcessStarted && e.PID == i.PID() })
		assert.Equal(t, len(started), 1)
		assert.Equal(t, started[0].Process.Argv[0], "/bin/sh")
		assert.Equal(t, started[0].Process.PPID, os.Getpid())
		assert.Assert(t, started[0].Process.StartTicks > 0)
		assert.Equal(t, len(b.all(ofKind(event.ProcessExeced, i.PID()))), 0)

		exited := b.all(ofKind(event.ProcessExited, i.PID()))
		assert.Equal(t, len(exited), 1)
		assert.Equal(t, *exited[0].Process.Code, 7)
		assert.DeepEqual(t, slices.SortedFunc(slices.Values(i.Tail()), func(a, b event.Output) int {
			return strings.Compare(a.Stream, b.Stream)
		}), []event.Output{{Stream: "stderr", Text: "err"}, {Stream: "stdout", Text: "out"}})
	})
}

func TestSignalEndsTheRootByName(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b bench) {
		i := b.start(t, subject.Options{}, "/bin/sleep", "60")
		assert.NilError(t, i.Signal(syscall.SIGTERM))
		exit, err := i.Wait(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, exit.String(), "killed by SIGTERM")
		assert.Equal(t, b.await(t, "exit", ofKind(event.ProcessExited, i.PID())).Process.Signal, "SIGTERM")
		assert.ErrorIs(t, i.Signal(syscall.SIGTERM), subject.ErrNotOurs)
	})
}

const familyScript = `
import os, sys, time
def say(*a): os.write(1, (" ".join(map(str, a)) + "\n").encode())
child = os.fork()
if child == 0:
    grandchild = os.fork()
    if grandchild == 0:
        say("grandchild", os.getpid(), os.getppid())
        time.sleep(60)
    say("child", os.getpid(), os.getppid())
    sys.stdin.read()
    time.sleep(60)
say("root", os.getpid())
os.waitpid(child, 0)
say("reaped", child)
time.sleep(60)
`

func TestDescendantsAreKnownParentsFirst(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b bench) {
		i := b.start(t, subject.Options{}, python, "-c", familyScript)
		child, grandchild := b.number(t, "child"), b.number(t, "grandchild")
		b.await(t, "grandchild", ofKind(event.ProcessStarted, grandchild))
		assert.DeepEqual(t, i.PIDs(), slices.Sorted(slices.Values([]int{i.PID(), child, grandchild})))
		var order []int
		for _, e := range b.all(func(e event.Event) bool { return e.Kind == event.ProcessStarted }) {
			order = append(order, e.PID)
		}
		assert.DeepEqual(t, order, []int{i.PID(), child, grandchild})

		assert.NilError(t, i.SignalPID(child, syscall.SIGKILL))
		b.await(t, "reaping by the root", printed("reaped"))
		killed := b.await(t, "exit", ofKind(event.ProcessExited, child))
		assert.Equal(t, killed.Process.Signal, "SIGKILL")
		assert.Assert(t, !i.Alive(child) && i.Alive(grandchild))
		assert.ErrorIs(t, i.SignalPID(os.Getpid(), syscall.SIGTERM), subject.ErrNotOurs)
	})
}

const codesScript = `
import os
for code in range(20):
    child = os.fork()
    if child == 0:
        os.read(0, 1)
        os._exit(code)
    os.write(1, b"code %d %d\n" % (child, code))
    os.waitpid(child, 0)
`

func TestExitCodesOfProcessesThatOthersReap(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b bench) {
		release, i := b.startWithInput(t, python, "-c", codesScript)
		for code := range 20 {
			line := b.await(t, "a child", func(e event.Event) bool {
				return printed("code ")(e) && strings.HasSuffix(e.Output.Text, " "+strconv.Itoa(code))
			}).Output.Text
			pid, err := strconv.Atoi(strings.Fields(line)[1])
			assert.NilError(t, err)
			b.await(t, "its start", ofKind(event.ProcessStarted, pid))
			release()
			exit := b.await(t, "its exit", ofKind(event.ProcessExited, pid))
			if exit.Process.Code == nil && b.witness.Certainty() != witness.Exact {
				continue // before Linux 6.15 the parent may have been quicker to reap it than we to look
			}
			assert.Assert(t, exit.Process.Code != nil, "code of pid %d unknown", pid)
			assert.Equal(t, *exit.Process.Code, code)
		}
		exit, err := i.Wait(t.Context())
		assert.NilError(t, err)
		assert.Equal(t, exit, subject.Exit{})
	})
}

func TestExecOfAnotherProgramIsRecorded(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b bench) {
		i := b.start(t, subject.Options{}, "/bin/sh", "-c", "/bin/sleep 60 & exec /bin/sleep 60")
		e := b.await(t, "exec", ofKind(event.ProcessExeced, i.PID()))
		assert.DeepEqual(t, e.Process.Argv, []string{"/bin/sleep", "60"})
		started := b.await(t, "sleep", func(e event.Event) bool {
			return e.Kind == event.ProcessStarted && e.PID != i.PID()
		})
		assert.Equal(t, started.Process.PPID, i.PID())
	})
}

func TestStartOfAMissingProgramSaysSo(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b bench) {
		for _, path := range []string{"/no/such/program", "no-such-program-anywhere"} {
			_, err := subject.Start(t.Context(), subject.Command{Path: path},
				subject.Options{Recorder: b.journal, Witness: b.witness})
			assert.Assert(t, errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound), "%v", err)
			assert.ErrorContains(t, err, path)
		}
	})
}

func TestSecretsAreMaskedInArgvAndOutput(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b bench) {
		i := b.start(t, subject.Options{}, "/bin/sh", "-c", "echo $0 $1; exit 0",
			"postgres://me:hunter2@h/db", "password=hunter2")
		_, err := i.Wait(t.Context())
		assert.NilError(t, err)
		var text bytes.Buffer
		for _, e := range b.journal.Events() {
			fmt.Fprintln(&text, e.Process, e.Output)
		}
		assert.Assert(t, !strings.Contains(text.String(), "hunter2"))
		assert.Equal(t, i.Tail()[0].Text, "postgres://me:xxxxx@h/db password=xxxxx")
	})
}

// owner remembers what it was told, and how much of the journal there was then.
type owner struct {
	mu      sync.Mutex
	journal *event.Journal
	pids    map[int]int64
}

func (o *owner) OwnProcess(pid int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pids[pid] = o.journal.Last()
	return nil
}

func TestOwnerIsToldOfEachProcessBeforeItsStart(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b bench) {
		o := &owner{journal: b.journal, pids: map[int]int64{}}
		i := b.start(t, subject.Options{Owner: o}, "/bin/sh", "-c", "sleep 60 & wait")
		b.await(t, "the child", func(e event.Event) bool {
			return e.Kind == event.ProcessStarted && e.PID != i.PID()
		})
		assert.NilError(t, i.Close(t.Context()))
		started := b.all(func(e event.Event) bool { return e.Kind == event.ProcessStarted })
		assert.Equal(t, len(started), 2)
		for _, e := range started {
			before, told := o.pids[e.PID]
			assert.Assert(t, told && before < e.Seq)
		}
	})
}

func TestEnvironmentOfTheProgramIsItsOwn(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b bench) {
		i, err := subject.Start(t.Context(), subject.Command{Path: "/usr/bin/env", Env: []string{"ONLY=this"}},
			subject.Options{Recorder: b.journal, Witness: b.witness})
		assert.NilError(t, err)
		_, err = i.Wait(t.Context())
		assert.NilError(t, errors.Join(err, i.Close(t.Context())))
		var names []string
		for _, line := range i.Tail() {
			name, _, _ := strings.Cut(line.Text, "=")
			names = append(names, name)
		}
		assert.DeepEqual(t, names, []string{"ONLY", "DEADWIRE_SUBJECT"})
	})
}
