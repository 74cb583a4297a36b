package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"gotest.tools/v3/assert"

	"deadwire/harness/pg"
	"deadwire/harness/pg/cluster"
	"deadwire/harness/pg/local"
)

// fakeBinaries returns a folder with a postgres that only tells its version.
func fakeBinaries(t *testing.T, version string) string {
	t.Helper()
	// Not t.TempDir: an unprivileged user must be able to enter it.
	dir, err := os.MkdirTemp("", "deadwire-fake-")
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, os.RemoveAll(dir)) })
	assert.NilError(t, os.Chmod(dir, 0o755))
	for _, tool := range []string{"postgres", "initdb"} {
		script := fmt.Sprintf("#!/bin/sh\necho '%s (PostgreSQL) %s'\n", tool, version)
		assert.NilError(t, os.WriteFile(filepath.Join(dir, tool), []byte(script), 0o755))
	}
	return dir
}

func TestTooOldBinariesAreNamed(t *testing.T) {
	t.Parallel()
	dir := fakeBinaries(t, "12.22")
	err := local.New(local.Options{BinDir: dir}).Available(t.Context())
	var old *pg.TooOldError
	assert.Assert(t, errors.As(err, &old), "got %v", err)
	assert.DeepEqual(t, *old, pg.TooOldError{Version: pg.Version{Major: 12, Minor: 22}, Where: dir})
}

func TestMissingBinariesAreNamed(t *testing.T) {
	t.Parallel()
	err := local.New(local.Options{BinDir: t.TempDir()}).Available(t.Context())
	var missing *pg.MissingError
	assert.Assert(t, errors.As(err, &missing), "got %v", err)
	assert.ErrorContains(t, err, "name the folder that holds postgres and initdb")
}

func TestReservedSettingsAreRefusedBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := local.New(local.Options{}).Start(t.Context(), pg.Config{Dir: dir, Settings: map[string]string{"port": "1"}})
	var reserved *cluster.ReservedError
	assert.Assert(t, errors.As(err, &reserved), "got %v", err)
	left, err := os.ReadDir(dir)
	assert.NilError(t, err)
	assert.Equal(t, len(left), 0)
}

func TestADyingServerFailsTheStartAtOnceWithItsLog(t *testing.T) {
	t.Parallel()
	owner := &owner{}
	_, err := local.New(local.Options{}).Start(t.Context(), pg.Config{
		Dir: t.TempDir(), CacheDir: sharedCache(t), Owner: owner, Settings: map[string]string{"shared_preload_libraries": "no_such_library"},
	})
	var start *pg.StartError
	assert.Assert(t, errors.As(err, &start), "got %v", err)
	assert.Assert(t, strings.Contains(strings.Join(start.Log, "\n"), "no_such_library"), "log: %v", start.Log)
	owner.assertNothingLeft(t)
}

func TestTheOwnerLearnsOfEverything(t *testing.T) {
	t.Parallel()
	owner := &owner{}
	server := start(t, pg.Config{Owner: owner})
	assert.Assert(t, owner.hasProcess(server.PID()))
	assert.NilError(t, server.Restart(t.Context(), pg.Fast))
	assert.Assert(t, owner.hasProcess(server.PID()))
	assert.NilError(t, server.Stop(t.Context()))
	owner.assertNothingLeft(t)
}

func TestAnOwnerThatRefusesFailsTheStart(t *testing.T) {
	t.Parallel()
	full := errors.New("book is full")
	owner := &owner{refuse: full}
	_, err := local.New(local.Options{}).Start(t.Context(), pg.Config{Dir: t.TempDir(), CacheDir: sharedCache(t), Owner: owner})
	assert.ErrorIs(t, err, full)
	owner.assertNothingLeft(t)
}

// A postmaster that is killed removes neither its pid file nor its System V
// segment; the next start and Stop have to.
func TestAKilledPostmasterIsCleanedUpAfter(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(t *testing.T, server pg.Server){
		"by a restart": func(t *testing.T, server pg.Server) {
			assert.NilError(t, server.Restart(t.Context(), pg.Fast))
			conn, err := pg.Admin(t.Context(), server)
			assert.NilError(t, err)
			assert.NilError(t, conn.Close(t.Context()))
		},
		"by stop": func(t *testing.T, server pg.Server) { assert.NilError(t, server.Stop(t.Context())) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t, pg.Config{})
			pid := server.PID()
			segments := segmentsOf(t, pid)
			assert.Equal(t, len(segments), 1, "a server has one segment")
			assert.NilError(t, syscall.Kill(pid, syscall.SIGKILL))
			after(t, server)
			assert.Equal(t, len(segmentsOf(t, pid)), 0)
		})
	}
}

func TestAServerLeavesNoGoroutine(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	server := start(t, pg.Config{})
	databases := pg.NewDatabases(server)
	_, err := databases.Clone(t.Context(), "template1")
	assert.NilError(t, err)
	assert.NilError(t, server.Restart(t.Context(), pg.Immediate))
	assert.NilError(t, server.Stop(t.Context()))
	goleak.VerifyNone(t, ignore)
}

// start returns a server that is stopped with t.
func start(t *testing.T, cfg pg.Config) pg.Server {
	t.Helper()
	cfg.Dir, cfg.CacheDir = t.TempDir(), sharedCache(t)
	server, err := local.New(local.Options{}).Start(t.Context(), cfg)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, server.Stop(context.Background())) })
	return server
}

// sharedCache is one folder for all tests of this package and for later runs of
// them, like the user's own.
func sharedCache(t *testing.T) string {
	t.Helper()
	base, err := os.UserCacheDir()
	assert.NilError(t, err)
	return filepath.Join(base, "deadwire", "test")
}

// segmentsOf returns the System V segments that a process created, as ipcs sees them.
func segmentsOf(t *testing.T, creator int) []string {
	t.Helper()
	out, err := exec.Command("ipcs", "-m", "-p").Output()
	assert.NilError(t, err)
	var found []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line) // shmid owner cpid lpid
		if len(fields) == 4 && fields[2] == strconv.Itoa(creator) {
			found = append(found, fields[0])
		}
	}
	return found
}

// owner keeps account, as the janitor would.
type owner struct {
	refuse error

	mu        sync.Mutex
	processes []int
	dirs      []string
}

func (o *owner) OwnProcess(pid int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.processes = append(o.processes, pid)
	return o.refuse
}

func (o *owner) Own(string, string) error { return nil }

func (o *owner) OwnDir(path string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dirs = append(o.dirs, path)
	return nil
}

func (o *owner) hasProcess(pid int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, known := range o.processes {
		if known == pid {
			return true
		}
	}
	return false
}

func (o *owner) assertNothingLeft(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	assert.Assert(t, len(o.processes) > 0 && len(o.dirs) > 0)
	for _, pid := range o.processes {
		assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	}
	for _, dir := range o.dirs {
		_, err := os.Stat(dir)
		assert.ErrorIs(t, err, os.ErrNotExist)
	}
}
