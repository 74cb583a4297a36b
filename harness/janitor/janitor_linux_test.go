package janitor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"deadwire/harness/wait"
)

// asRun makes the test binary own things and wait to be killed.
const asRun = "JANITOR_TEST_ROOT"

func TestMain(m *testing.M) {
	if root := os.Getenv(asRun); root != "" {
		if err := ownThings(root); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// told is what the killed run tells the test.
type told struct {
	Child, Orphan int
	Dir           string
}

// ownThings starts a recorded child with a child of its own, and an unrecorded
// one that only carries the lease's variable; then it waits to be killed.
func ownThings(root string) error {
	lease, err := Acquire(root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(root), "owned")
	if err != nil {
		return err
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "data"), []byte("x"), 0o600),
		lease.OwnDir(dir), lease.Own("container", "c1"),
	); err != nil {
		return err
	}
	child := exec.Command("/bin/sh", "-c", "sleep 600 & wait")
	if err := child.Start(); err != nil {
		return err
	}
	if err := lease.OwnProcess(child.Process.Pid); err != nil {
		return err
	}
	orphan := exec.Command("sleep", "600")
	orphan.Env = append(os.Environ(), lease.Env())
	if err := orphan.Start(); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(told{child.Process.Pid, orphan.Process.Pid, dir}); err != nil {
		return err
	}
	_, err = os.Stdin.Read(make([]byte, 1)) // never answered
	return err
}

// startRun starts a run of the test binary and returns it with what it told.
func startRun(t *testing.T, root string) (*exec.Cmd, told) {
	t.Helper()
	run := exec.Command(os.Args[0])
	run.Env = append(os.Environ(), asRun+"="+root)
	stdin, err := run.StdinPipe()
	assert.NilError(t, err)
	stdout, err := run.StdoutPipe()
	assert.NilError(t, err)
	assert.NilError(t, run.Start())
	lines := bufio.NewScanner(stdout)
	assert.Assert(t, lines.Scan(), "the run said nothing")
	var facts told
	assert.NilError(t, json.Unmarshal(lines.Bytes(), &facts))
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = run.Process.Kill()
		_ = run.Wait() // killed
	})
	return run, facts
}

func alive(pid int) bool { _, alive := look(pid); return alive }

// childOf waits for the one child of pid: the shell may not have forked yet.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	found := 0
	err := wait.For(t.Context(), "a child", func(context.Context) wait.Answer {
		for candidate, p := range processes() {
			if p.ppid == pid {
				found = candidate
				return wait.Done()
			}
		}
		return wait.NotYet("none of %d", pid)
	})
	assert.NilError(t, err)
	return found
}

func newRoot(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "leases")
}

func TestSweepEndsWhatAKilledRunLeft(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	run, facts := startRun(t, root)
	grandchild := childOf(t, facts.Child)

	swept, err := Sweep(t.Context(), root)
	assert.NilError(t, err)
	assert.Equal(t, swept.Live, 1, "a living run was swept")
	assert.Check(t, alive(facts.Child) && alive(grandchild) && alive(facts.Orphan))

	assert.NilError(t, run.Process.Kill())
	_ = run.Wait() // killed
	containers := Remover{Kind: "container", Remove: func(_ context.Context, value string) error {
		assert.Check(t, is.Equal(value, "c1"))
		return nil
	}}
	swept, err = Sweep(t.Context(), root, containers)
	assert.NilError(t, err)

	want := []int{facts.Child, grandchild, facts.Orphan}
	slices.Sort(want)
	slices.Sort(swept.Processes)
	assert.DeepEqual(t, swept.Processes, want)
	for _, pid := range want {
		assert.Check(t, !alive(pid), "%d lives", pid)
	}
	assert.DeepEqual(t, swept.Dirs, []string{facts.Dir})
	_, err = os.Stat(facts.Dir)
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.DeepEqual(t, swept.Items, []Item{{Kind: "container", Value: "c1"}})
	assertNoLease(t, root)
}

func assertNoLease(t *testing.T, root string) {
	t.Helper()
	entries, err := os.ReadDir(root)
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 0)
}

func TestAKindWithoutARemoverStaysRecorded(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	run, facts := startRun(t, root)
	assert.NilError(t, run.Process.Kill())
	_ = run.Wait() // killed

	swept, err := Sweep(t.Context(), root)
	assert.NilError(t, err)
	assert.DeepEqual(t, swept.Left, []Item{{Kind: "container", Value: "c1"}})
	assert.Check(t, !alive(facts.Child))

	errBusy := errors.New("busy")
	fails := Remover{Kind: "container", Remove: func(context.Context, string) error { return errBusy }}
	_, err = Sweep(t.Context(), root, fails)
	assert.ErrorIs(t, err, errBusy)
	works := Remover{Kind: "container", Remove: func(context.Context, string) error { return nil }}
	swept, err = Sweep(t.Context(), root, works)
	assert.NilError(t, err)
	assert.Equal(t, len(swept.Leases), 1)
	assertNoLease(t, root)
}

func TestConcurrentSweepsShareTheWork(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	var pids []int
	for range 3 {
		run, facts := startRun(t, root)
		pids = append(pids, facts.Child, childOf(t, facts.Child), facts.Orphan)
		assert.NilError(t, run.Process.Kill())
		_ = run.Wait() // killed
	}
	remover := Remover{Kind: "container", Remove: func(context.Context, string) error { return nil }}
	var mu sync.Mutex
	var killed []int
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			swept, err := Sweep(t.Context(), root, remover)
			assert.Check(t, err)
			mu.Lock()
			defer mu.Unlock()
			killed = append(killed, swept.Processes...)
		})
	}
	group.Wait()
	slices.Sort(pids)
	slices.Sort(killed)
	assert.DeepEqual(t, killed, pids) // each once
	assertNoLease(t, root)
}

// deadLease writes a lease as a dead run leaves it.
func deadLease(t *testing.T, root string, head header, items ...Item) string {
	t.Helper()
	_, err := prepare(root)
	assert.NilError(t, err)
	path := filepath.Join(root, "dead"+suffix)
	file, err := os.Create(path)
	assert.NilError(t, err)
	defer file.Close()
	out := json.NewEncoder(file)
	assert.NilError(t, out.Encode(head))
	for _, item := range items {
		assert.NilError(t, out.Encode(item))
	}
	return path
}

func here() header {
	return header{Schema: schema, Token: "token-of-nobody", Boot: bootID(), Space: pidSpace()}
}

// bystander is a process that a lease may not touch.
func bystander(t *testing.T) (int, uint64) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	assert.NilError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	start, err := startTicks(cmd.Process.Pid)
	assert.NilError(t, err)
	return cmd.Process.Pid, start
}

func TestProcessesThatAreNotTheSameAreNotTouched(t *testing.T) {
	t.Parallel()
	pid, start := bystander(t)
	otherBoot, otherSpace := here(), here()
	otherBoot.Boot = "another boot"
	otherSpace.Space = "pid:[1]"
	for name, tc := range map[string]struct {
		head  header
		item  Item
		stays bool
	}{
		"recycled pid":      {here(), Item{Kind: kindProcess, PID: pid, Start: start + 1}, false},
		"another boot":      {otherBoot, Item{Kind: kindProcess, PID: pid, Start: start}, false},
		"another namespace": {otherSpace, Item{Kind: kindProcess, PID: pid, Start: start}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newRoot(t)
			path := deadLease(t, root, tc.head, tc.item)
			swept, err := Sweep(t.Context(), root)
			assert.NilError(t, err)
			assert.Equal(t, len(swept.Processes), 0)
			assert.Check(t, alive(pid))
			_, err = os.Stat(path)
			assert.Equal(t, err == nil, tc.stays)
			assert.Equal(t, swept.Foreign == 1, tc.stays)
		})
	}
}

func TestASweepSparesItselfAndItsAncestors(t *testing.T) {
	t.Parallel()
	self, parent := os.Getpid(), os.Getppid()
	start, err := startTicks(self)
	assert.NilError(t, err)
	spared := ancestors(processes(), self)
	assert.Check(t, spared[self] && spared[parent], "%v", spared)
	// Only looked at, never carried out: a mistake here would end the tests.
	fresh, kept := collect("token-of-nobody", []Item{{Kind: kindProcess, PID: self, Start: start}}, nil)
	for _, target := range fresh {
		assert.Check(t, target.pid != self && target.pid != parent)
		target.close()
	}
	assert.DeepEqual(t, kept, []Item{{Kind: kindProcess, PID: self, Start: start}})
}

func TestOnlyMarkedFoldersAreRemoved(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	base := t.TempDir()
	mark := func(name, token string) string {
		path := filepath.Join(base, name)
		assert.NilError(t, os.Mkdir(path, 0o700))
		if token != "" {
			assert.NilError(t, os.WriteFile(filepath.Join(path, MarkerName), []byte(token+"\n"), 0o600))
		}
		return path
	}
	ours, theirs, plain := mark("ours", "token-of-nobody"), mark("theirs", "another"), mark("plain", "")
	symlink := filepath.Join(base, "symlink")
	target := mark("target", "token-of-nobody")
	assert.NilError(t, os.Symlink(target, symlink))
	var items []Item
	for _, path := range []string{ours, theirs, plain, symlink, filepath.Join(base, "gone")} {
		items = append(items, Item{Kind: kindDir, Value: path})
	}
	deadLease(t, root, here(), items...)
	swept, err := Sweep(t.Context(), root)
	assert.NilError(t, err)
	assert.DeepEqual(t, swept.Dirs, []string{ours})
	for _, path := range []string{theirs, plain, target, symlink} {
		_, err := os.Lstat(path)
		assert.NilError(t, err)
	}
	assertNoLease(t, root)
}
