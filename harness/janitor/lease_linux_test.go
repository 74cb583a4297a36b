package janitor

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

func TestAFolderCanBeOwnedBeforeItExists(t *testing.T) {
	t.Parallel()
	root, base := newRoot(t), t.TempDir()
	lease, err := Acquire(root)
	assert.NilError(t, err)
	path := filepath.Join(base, "data")
	assert.NilError(t, lease.OwnDir(path))
	assert.NilError(t, os.MkdirAll(filepath.Join(path, "base"), 0o700))

	// What a sweep finds once the run is dead, without the lock.
	copied := here()
	copied.Token = lease.token
	assert.NilError(t, os.Rename(lease.path, lease.path+".held"))
	deadLease(t, root, copied, Item{Kind: kindDir, Value: path})
	swept, err := Sweep(t.Context(), root)
	assert.NilError(t, err)
	assert.DeepEqual(t, swept.Dirs, []string{path})
	entries, err := os.ReadDir(base)
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 0, "folder or mark was left")
	assert.NilError(t, os.Rename(lease.path+".held", lease.path))
	assert.NilError(t, lease.Release())
}

func TestReleaseLeavesNothing(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	lease, err := Acquire(root)
	assert.NilError(t, err)
	dir := t.TempDir()
	assert.NilError(t, lease.OwnDir(dir))
	assert.ErrorIs(t, lease.OwnDir(dir), os.ErrExist)
	assert.ErrorContains(t, lease.Own(kindDir, "/"), "method of its own")
	assert.NilError(t, lease.Release())
	assert.NilError(t, lease.Release())
	assert.ErrorIs(t, lease.Own("container", "c1"), os.ErrClosed)
	_, err = os.Stat(filepath.Join(dir, MarkerName))
	assert.ErrorIs(t, err, os.ErrNotExist)
	assertNoLease(t, root)
}

func TestAProcessThatEndedCannotBeOwned(t *testing.T) {
	t.Parallel()
	lease, err := Acquire(newRoot(t))
	assert.NilError(t, err)
	defer func() { assert.Check(t, lease.Release()) }()
	cmd := exec.Command("true")
	assert.NilError(t, cmd.Run())
	assert.ErrorIs(t, lease.OwnProcess(cmd.Process.Pid), ErrGone)
}

func TestATornLineIsLeftOut(t *testing.T) {
	t.Parallel()
	whole, err := json.Marshal(here())
	assert.NilError(t, err)
	_, items, err := read(strings.NewReader(string(whole) + "\n" + `{"kind":"other","value":"x"}` + "\n" + `{"kind":"process","pid":`))
	assert.NilError(t, err)
	assert.DeepEqual(t, items, []Item{{Kind: "other", Value: "x"}})
	_, _, err = read(strings.NewReader("not a lease"))
	assert.ErrorContains(t, err, schema)
}

func TestAFolderThatOthersMayWriteToIsRefused(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	assert.NilError(t, os.Mkdir(root, 0o700))
	assert.NilError(t, os.Chmod(root, 0o777))
	_, err := Acquire(root)
	assert.ErrorContains(t, err, "others may write")
	_, err = Sweep(t.Context(), root)
	assert.ErrorContains(t, err, "others may write")
}

func TestAnOldStillbornLeaseIsRemoved(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	assert.NilError(t, os.Mkdir(root, 0o700))
	old, fresh, other := filepath.Join(root, "new-1"), filepath.Join(root, "new-2"), filepath.Join(root, "notes")
	for _, path := range []string{old, fresh, other} {
		assert.NilError(t, os.WriteFile(path, nil, 0o600))
	}
	past := time.Now().Add(-2 * newLeaseMax)
	assert.NilError(t, os.Chtimes(old, past, past))
	_, err := Sweep(t.Context(), root)
	assert.NilError(t, err)
	_, err = os.Stat(old)
	assert.ErrorIs(t, err, os.ErrNotExist)
	for _, path := range []string{fresh, other} {
		_, err = os.Stat(path)
		assert.NilError(t, err)
	}
}

// A process that the run was forking when it was killed has copies of all its
// descriptors until it execs, and with them the lock.
func TestAStillbornLeaseOfADeadProcessIsRemovedAtOnce(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	assert.NilError(t, os.MkdirAll(root, 0o700))
	dead := exec.Command("true")
	assert.NilError(t, dead.Run())
	mine := filepath.Join(root, newPrefix()+"1")
	dying := filepath.Join(root, "new-"+spaceNumber()+"-"+strconv.Itoa(dead.Process.Pid)+"-1")
	elsewhere := filepath.Join(root, "new-1-"+strconv.Itoa(dead.Process.Pid)+"-1") // a number of another pid namespace
	for _, path := range []string{mine, dying, elsewhere} {
		assert.NilError(t, os.WriteFile(path, nil, 0o600))
	}
	_, err := Sweep(t.Context(), root)
	assert.NilError(t, err)
	for path, want := range map[string]bool{mine: true, dying: false, elsewhere: true} {
		_, err := os.Lstat(path)
		assert.Equal(t, err == nil, want, path)
	}
}

func TestACopyOfADeadRunsLockIsWaitedFor(t *testing.T) {
	t.Parallel()
	gone := exec.Command("true")
	assert.NilError(t, gone.Run())
	head := here()
	head.PID = gone.Process.Pid
	root := newRoot(t)
	path := deadLease(t, root, head)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	assert.NilError(t, err)
	assert.NilError(t, lock(file))
	forked := exec.Command("sleep", "0.3")
	forked.ExtraFiles = []*os.File{file}
	assert.NilError(t, forked.Start())
	assert.NilError(t, file.Close())
	swept, err := Sweep(t.Context(), root)
	assert.NilError(t, err)
	assert.DeepEqual(t, swept.Leases, []string{path})
	assertNoLease(t, root)
	assert.NilError(t, forked.Wait())
}

// The other way round: what we unlocked is free, whoever has a copy.
func TestASweepLeavesNoLockBehind(t *testing.T) {
	t.Parallel()
	path := deadLease(t, newRoot(t), here())
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	assert.NilError(t, err)
	assert.NilError(t, lock(file))
	forked := exec.Command("sleep", "600")
	forked.ExtraFiles = []*os.File{file}
	assert.NilError(t, forked.Start())
	assert.NilError(t, unlock(file))
	again, err := os.OpenFile(path, os.O_RDWR, 0)
	assert.NilError(t, err)
	assert.NilError(t, lock(again))
	assert.NilError(t, unlock(again))
	assert.NilError(t, forked.Process.Kill())
	_ = forked.Wait() // killed
}
