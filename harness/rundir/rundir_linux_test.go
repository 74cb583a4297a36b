package rundir_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"deadwire/harness/rundir"
)

// mount gives a file system of sizeBytes of our own; only root may do that.
func mount(t *testing.T, sizeBytes string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+sizeBytes); err != nil {
		t.Skipf("no file system of our own can be mounted here: %v", err)
	}
	// Detached, since a process that another test forks holds our descriptors until it execs.
	t.Cleanup(func() { assert.Check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

func fill(t *testing.T, dir string) {
	t.Helper()
	file, err := os.Create(filepath.Join(dir, "filler"))
	assert.NilError(t, err)
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	assert.ErrorIs(t, err, syscall.ENOSPC)
}

func TestAFullDiskIsATypedErrorWithAMend(t *testing.T) {
	t.Parallel()
	root := mount(t, "64k")
	fill(t, root)
	_, err := rundir.Create(rundir.Options{Root: filepath.Join(root, "out")})
	assertMend(t, err, root, "free space")
}

func TestADiskThatFillsUpLaterKeepsTheOldFile(t *testing.T) {
	t.Parallel()
	root := mount(t, "256k")
	d := create(t, rundir.Options{Root: root})
	path := d.File(rundir.VerdictName)
	assert.NilError(t, rundir.WriteFile(path, []byte("old")))
	err := rundir.WriteFile(path, []byte(strings.Repeat("x", 1<<20)))
	assertMend(t, err, path, "free space")
	data, err := os.ReadFile(path)
	assert.NilError(t, err)
	assert.Equal(t, string(data), "old")
}

func TestAReadOnlyDiskIsATypedErrorWithAMend(t *testing.T) {
	t.Parallel()
	root := mount(t, "64k")
	assert.NilError(t, unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, err := rundir.Create(rundir.Options{Root: root})
	assertMend(t, err, root, "writable")
}

func assertMend(t *testing.T, err error, path, mend string) {
	t.Helper()
	var typed *rundir.Error
	assert.Assert(t, errors.As(err, &typed), "%v", err)
	assert.Check(t, is.Contains(err.Error(), path))
	assert.Check(t, is.Contains(typed.Mend(), mend))
}
