package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"gotest.tools/v3/assert"

	"deadwire/harness/report"
	"deadwire/harness/verdict"
)

// binaries are built once: subjects are our own program started again, which a
// test binary cannot stand in for.
var binaries string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "deadwire-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binaries = dir
	if err := fakeOldServer(filepath.Join(dir, "old")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for name, pkg := range map[string]string{"deadwire": ".", "historic": "./testdata/historic"} {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, name), pkg)
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", name, err, out)
			return 1
		}
	}
	return m.Run()
}

// fakeOldServer makes binaries that say they are of a version before 13, in a
// folder that the unprivileged user of the server may enter.
func fakeOldServer(dir string) error {
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		return err
	}
	var errs []error
	for _, name := range []string{"postgres", "initdb"} {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho 'postgres (PostgreSQL) 12.22'\n"), 0o755))
	}
	return errors.Join(errs...)
}

func TestScripts(t *testing.T) {
	stored, err := filepath.Abs("testdata/runs") // runs that earlier versions kept
	assert.NilError(t, err)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", binaries+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("BIN", binaries)
			env.Setenv("RUNS", stored)
			env.Setenv("PYTHON", python())
			env.Setenv("OLD", filepath.Join(binaries, "old"))
			env.Setenv("XDG_CACHE_HOME", filepath.Join(os.TempDir(), "deadwire-test-cache"))
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "python":
				return python() != "", nil
			case "root":
				return os.Geteuid() == 0 && runtime.GOOS == "linux", nil
			default:
				return false, fmt.Errorf("unknown condition %q", cond)
			}
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"holdport": holdPort,
		},
	})
}

// python returns an interpreter that has psycopg2, "" for none.
func python() string {
	for _, path := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(path, "-c", "import psycopg2").Run() == nil {
			return path
		}
	}
	return ""
}

// exits runs a command and compares its exit code: exits CODE PROGRAM ARG...
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// holdport listens on a free port for the rest of the script: holdport VARIABLE.
func holdPort(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

// deadwire runs the binary and returns the JSON result and what it printed.
func deadwire(t *testing.T, args ...string) (report.Run, string, int) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "result.json")
	cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "deadwire"), append(args, "--json", file, "--out", filepath.Join(dir, "out"))...)
	out, err := cmd.CombinedOutput()
	code := 0
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ExitCode()
	} else {
		assert.NilError(t, err)
	}
	text, err := os.ReadFile(file)
	assert.NilError(t, err, "%s", out)
	assertContract(t, text)
	var run report.Run
	assert.NilError(t, json.Unmarshal(text, &run))
	return run, string(out), code
}

func TestBrokenIsReproducedAndFixedSurvives(t *testing.T) {
	t.Parallel()
	run, out, code := deadwire(t, "run", "inherited-terminate", "--seed", "test")
	assert.Equal(t, code, verdict.ExitPass, out)
	assert.Equal(t, run.Totals.Pass, 4)
	for _, c := range run.Cases {
		if c.Case != "broken" {
			continue
		}
		assert.Equal(t, string(c.Outcome), "fails")
		assert.Assert(t, strings.Contains(c.Error, "partition"), c.Error)
		for _, e := range c.Endings {
			if e.Role == "coordinator" {
				assert.Equal(t, e.Rule, "fork.inherited-terminate")
				assert.Assert(t, e.Actor.PID != e.Opener.PID && e.Actor.PPID == e.Opener.PID)
				assert.Assert(t, e.Expected && len(e.Evidence) > 0)
			}
		}
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	last := lines[len(lines)-1]
	assert.Assert(t, strings.HasPrefix(last, "DONE") && strings.Contains(last, "verdict pass") && strings.Contains(last, "seed test"), last)
}

func TestPlantedBugTurnsTheFixedCaseRed(t *testing.T) {
	t.Parallel()
	run, out, code := deadwire(t, "run", "inherited-terminate/fixed", "--subject", filepath.Join(binaries, "historic"))
	assert.Equal(t, code, verdict.ExitFail, out)
	assert.Equal(t, run.Cases[0].Verdict, verdict.Fail)
	assert.Assert(t, strings.Contains(run.Cases[0].Reason, "fork.inherited-terminate"), run.Cases[0].Reason)
}

func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "deadwire"), "run", "slow-network/sliced", "--out", dir, "--format", "json")
	out, err := cmd.CombinedOutput()
	assert.NilError(t, err, "%s", out)
	assert.Assert(t, !strings.Contains(string(out), "postgres://"), "a URL with a password was printed")
	assert.NilError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		assert.Assert(t, !strings.Contains(string(text), "postgres://deadwire:"), "%s holds a password", path)
		return err
	}))
}
