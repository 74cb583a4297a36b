package rundir_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"deadwire/harness/rundir"
)

// asHolder makes the test binary hold a run and wait to be killed.
const asHolder = "RUNDIR_TEST_HOLD"

func TestMain(m *testing.M) {
	if root := os.Getenv(asHolder); root != "" {
		holdRun(root)
		return
	}
	os.Exit(m.Run())
}

func holdRun(root string) {
	d, err := rundir.Create(rundir.Options{Root: root})
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(d.Path() + "\n")
	var b [1]byte
	_, _ = os.Stdin.Read(b[:]) // never answered
}

func create(t *testing.T, o rundir.Options) *rundir.Dir {
	t.Helper()
	d, err := rundir.Create(o)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, d.Close()) })
	return d
}

func TestCreateWritesAManifestWithoutPasswords(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d := create(t, rundir.Options{
		Root: root, Version: "0.1.0", Seed: "0x5eed",
		Command: []string{"deadwire", "run", "--postgres", "postgres://app:s3cr@t@127.0.0.1:5432/app?sslpassword=s3cr@t"},
	})

	data, err := os.ReadFile(d.File(rundir.ManifestName))
	assert.NilError(t, err)
	assert.Check(t, !strings.Contains(string(data), "s3cr"), "%s", data)
	m, err := rundir.ReadManifest(d.Path())
	assert.NilError(t, err)
	assert.Equal(t, m.Schema, "deadwire.manifest/1")
	assert.Equal(t, m.Seed, "0x5eed")
	assert.Equal(t, m.Command[3], "postgres://app:***@127.0.0.1:5432/app?sslpassword=***")
	info, err := os.Stat(d.Path())
	assert.NilError(t, err)
	assert.Equal(t, info.Mode().Perm(), fs.FileMode(0o700))
	latest, err := filepath.EvalSymlinks(filepath.Join(root, "latest"))
	assert.NilError(t, err)
	assert.Equal(t, latest, d.Path())
}

func TestSetVersionsKeepsWhatTheManifestHad(t *testing.T) {
	t.Parallel()
	d := create(t, rundir.Options{Root: t.TempDir(), Versions: map[string]string{"go": "1.26"}})
	assert.NilError(t, d.SetVersions(map[string]string{"postgres": "15.18"}))
	m, err := rundir.ReadManifest(d.Path())
	assert.NilError(t, err)
	assert.DeepEqual(t, m.Versions, map[string]string{"go": "1.26", "postgres": "15.18"})
}

func TestCasesGetFoldersOfTheirOwn(t *testing.T) {
	t.Parallel()
	d := create(t, rundir.Options{Root: t.TempDir()})
	var mu sync.Mutex
	seen := map[string]bool{}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			path, err := d.Case("inherited-terminate", "broken")
			assert.Check(t, err)
			mu.Lock()
			defer mu.Unlock()
			assert.Check(t, !seen[path], "%s was given twice", path)
			seen[path] = true
		})
	}
	group.Wait()
	assert.Check(t, seen[filepath.Join(d.Path(), "cases", "inherited-terminate.broken")])
	assert.Check(t, seen[filepath.Join(d.Path(), "cases", "inherited-terminate.broken.8")])
}

func TestACaseNameCannotLeaveTheFolder(t *testing.T) {
	t.Parallel()
	d := create(t, rundir.Options{Root: t.TempDir()})
	path, err := d.Case("../../etc", strings.Repeat("ä/", 300))
	assert.NilError(t, err)
	assert.Equal(t, filepath.Dir(path), filepath.Join(d.Path(), "cases"))
}

func TestFinishRecordsTheFailedCases(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	failed := []rundir.Failed{{Scenario: "a", Case: "broken", Seed: "7"}}
	bad := create(t, rundir.Options{Root: root})
	assert.NilError(t, bad.Finish(rundir.Last{Status: rundir.FailedRun, Failed: failed}))
	last, err := rundir.ReadLast(root)
	assert.NilError(t, err)
	assert.DeepEqual(t, last, rundir.Last{Schema: "deadwire.last/1", Run: bad.Name(), Status: "failed", Failed: failed})

	good := create(t, rundir.Options{Root: root})
	assert.NilError(t, good.Finish(rundir.Last{Status: rundir.Passed}))
	found, err := rundir.Find(root, "latest-failed")
	assert.NilError(t, err)
	assert.Equal(t, found, bad.Path())
	found, err = rundir.Find(root, "")
	assert.NilError(t, err)
	assert.Equal(t, found, good.Path())
}

func TestReadLastWithoutARunSaysSo(t *testing.T) {
	t.Parallel()
	_, err := rundir.ReadLast(t.TempDir())
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

func TestFindByNamePrefixOrSuffix(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	day := time.Date(2026, 8, 23, 10, 41, 7, 0, time.UTC)
	first := create(t, rundir.Options{Root: root, Started: day})
	second := create(t, rundir.Options{Root: root, Started: day.Add(time.Hour)})
	for _, tc := range []struct{ name, want string }{
		{first.Name(), first.Path()},
		{first.Path(), first.Path()},
		{"2026-08-23T11", second.Path()},
		{first.Name()[len(first.Name())-6:], first.Path()},
	} {
		found, err := rundir.Find(root, tc.name)
		assert.NilError(t, err, tc.name)
		assert.Equal(t, found, tc.want)
	}
	for _, name := range []string{"2026-08-23", "nothing"} { // ambiguous, unknown
		_, err := rundir.Find(root, name)
		assert.ErrorIs(t, err, fs.ErrNotExist, name)
	}
	names, err := rundir.List(root)
	assert.NilError(t, err)
	assert.DeepEqual(t, names, []string{second.Name(), first.Name()})
}

func TestPruneKeepsTheNewestTheFailedAndTheRunning(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	start := time.Now()
	var dirs []*rundir.Dir
	for n := range 6 {
		dirs = append(dirs, create(t, rundir.Options{Root: root, Started: start.Add(time.Duration(n) * time.Second), Keep: -1}))
	}
	// The oldest still runs, the second failed, the others passed.
	assert.NilError(t, dirs[1].Finish(rundir.Last{Status: rundir.FailedRun}))
	for _, d := range dirs[2:] {
		assert.NilError(t, d.Finish(rundir.Last{Status: rundir.Passed}))
	}
	stranger := filepath.Join(root, "runs", "notes")
	assert.NilError(t, os.Mkdir(stranger, 0o700))

	removed, err := rundir.Prune(root, 2, 0)
	assert.NilError(t, err)
	assert.DeepEqual(t, removed, []string{dirs[3].Name(), dirs[2].Name()})
	names, err := rundir.List(root)
	assert.NilError(t, err)
	assert.DeepEqual(t, names, []string{dirs[5].Name(), dirs[4].Name(), dirs[1].Name(), dirs[0].Name()})
	_, err = os.Stat(stranger)
	assert.NilError(t, err)
}

func TestRunsBeyondTheBytesGoExceptTheNewest(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	start := time.Now()
	var names []string
	for n := range 4 {
		d := create(t, rundir.Options{Root: root, Started: start.Add(time.Duration(n) * time.Second), Keep: -1})
		assert.NilError(t, os.WriteFile(d.File(rundir.EventsName), make([]byte, 100_000), 0o600))
		assert.NilError(t, d.Finish(rundir.Last{Status: rundir.Passed}))
		names = append(names, d.Name())
	}
	removed, err := rundir.Prune(root, 10, 250_000)
	assert.NilError(t, err)
	assert.DeepEqual(t, removed, []string{names[1], names[0]})
	removed, err = rundir.Prune(root, 10, 10)
	assert.NilError(t, err)
	assert.DeepEqual(t, removed, []string{names[2]})
}

func TestTheLockDiesWithItsHolder(t *testing.T) {
	t.Parallel()
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), asHolder+"="+t.TempDir())
	stdin, err := holder.StdinPipe()
	assert.NilError(t, err)
	defer stdin.Close()
	stdout, err := holder.StdoutPipe()
	assert.NilError(t, err)
	assert.NilError(t, holder.Start())
	lines := bufio.NewScanner(stdout)
	assert.Assert(t, lines.Scan())
	path := lines.Text()
	assert.Check(t, rundir.Locked(path))

	assert.NilError(t, holder.Process.Kill())
	_ = holder.Wait() // killed, as asked
	assert.Check(t, !rundir.Locked(path))
	m, err := rundir.ReadManifest(path)
	assert.NilError(t, err)
	assert.Equal(t, m.PID, holder.Process.Pid)
}

func TestAFileInTheWayIsATypedErrorWithAMend(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "file")
	assert.NilError(t, os.WriteFile(root, nil, 0o600))
	_, err := rundir.Create(rundir.Options{Root: root})
	var typed *rundir.Error
	assert.Assert(t, errors.As(err, &typed), "%v", err)
	assert.Check(t, is.Contains(err.Error(), root))
	assert.Check(t, is.Contains(typed.Mend(), "in the way"))
}

func TestWriteFileReplacesOrLeavesTheOld(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "verdict.json")
	assert.NilError(t, rundir.WriteJSON(path, map[string]int{"fail": 1}))
	err := rundir.WriteJSON(path, func() {}) // cannot be encoded
	assert.ErrorContains(t, err, "encode "+path)
	data, err := os.ReadFile(path)
	assert.NilError(t, err)
	var got map[string]int
	assert.NilError(t, json.Unmarshal(data, &got))
	assert.DeepEqual(t, got, map[string]int{"fail": 1})
	entries, err := os.ReadDir(dir)
	assert.NilError(t, err)
	assert.Equal(t, len(entries), 1, "a temporary file was left")
}

func TestMask(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"url":                 {"postgres://u:pw@h/d", "postgres://u:***@h/d"},
		"url with at sign":    {"postgres://u:p@w@h/d", "postgres://u:***@h/d"},
		"url without user":    {"postgres://:pw@h", "postgres://:***@h"},
		"url without secret":  {"see http://h:80/a@b", "see http://h:80/a@b"},
		"settings":            {"host=h password=pw user=u", "host=h password=*** user=u"},
		"quoted settings":     {`password = 'p \' w' user=u`, `password = *** user=u`},
		"in a call":           {"connect(password='pw')", "connect(password=***)"},
		"environment":         {"PGPASSWORD=pw psql", "PGPASSWORD=*** psql"},
		"query":               {"?sslpassword=pw&x=1", "?sslpassword=***&x=1"},
		"words about secrets": {"password authentication failed", "password authentication failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, rundir.Mask(tc.text), tc.want)
			assert.Equal(t, rundir.Mask(tc.want), tc.want, "masked twice")
		})
	}
}
