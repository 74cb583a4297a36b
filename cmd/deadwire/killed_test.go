package main_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"
)

// killsDefault is how many kills the usual run of the tests makes; the variable
// DEADWIRE_KILLS asks for more.
const killsDefault = 3

// longest time after the start at which a run is killed: it covers preparation,
// faults and the end of the chosen scenario
const killWithin = 3 * time.Second

func TestKilledRunsLeaveNothingAfterTheNextStart(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("finds processes by /proc")
	}
	t.Parallel()
	kills := killsDefault
	if text := os.Getenv("DEADWIRE_KILLS"); text != "" {
		var err error
		kills, err = strconv.Atoi(text)
		assert.NilError(t, err)
	}
	home := publicDir(t)
	seed := rand.Uint64()
	t.Logf("moments from seed %d", seed)
	moments := rand.New(rand.NewPCG(seed, 0))
	for n := range kills {
		cmd := runIn(t, home, "run", "held-by-worker", "compute-crash", "crash-restart")
		assert.NilError(t, cmd.Start())
		after := time.Duration(moments.Int64N(int64(killWithin)))
		timer := time.AfterFunc(after, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
		_ = cmd.Wait() // killed, or done before its time
		timer.Stop()
		next := runIn(t, home, "run", "slow-network/sliced", "--format", "quiet")
		out, err := next.CombinedOutput()
		assert.NilError(t, err, "run after kill %d at %s: %s", n+1, after, out)
		poll.WaitOn(t, nothingLeft(home), poll.WithTimeout(10*time.Second))
	}
}

// publicDir returns a folder that the server's unprivileged user may enter.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dwk-")
	assert.NilError(t, err)
	assert.NilError(t, os.Chmod(dir, 0o755))
	assert.NilError(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o777|os.ModeSticky))
	t.Cleanup(func() { assert.Check(t, os.RemoveAll(dir)) })
	return dir
}

func runIn(t *testing.T, home string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binaries, "deadwire"), append(args, "--out", filepath.Join(home, "out"))...)
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(home, "tmp"), "XDG_CACHE_HOME="+filepath.Join(home, "cache"), "HOME="+home)
	return cmd
}

// nothingLeft looks for processes that know the folder, by argument or by
// environment, for server folders, and for leases.
func nothingLeft(home string) poll.Check {
	return func(poll.LogT) poll.Result {
		var left []string
		for _, pattern := range []string{"tmp/*", "cache/deadwire/leases/*"} {
			found, err := filepath.Glob(filepath.Join(home, pattern))
			if err != nil {
				return poll.Error(err)
			}
			left = append(left, found...)
		}
		processes, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			return poll.Error(err)
		}
		for _, p := range processes {
			argv, _ := os.ReadFile(filepath.Join(p, "cmdline"))
			environ, _ := os.ReadFile(filepath.Join(p, "environ"))
			if strings.Contains(string(argv)+string(environ), home) {
				left = append(left, fmt.Sprintf("%s %q", p, argv))
			}
		}
		if len(left) > 0 {
			return poll.Continue("left: %v", left)
		}
		return poll.Success()
	}
}
