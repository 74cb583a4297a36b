package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"deadwire/harness/pg"
	"deadwire/harness/pg/cluster"
)

// start starts a server that is stopped with t, unless it was before.
func start(t *testing.T, cfg pg.Config) *server {
	t.Helper()
	cfg.Dir = t.TempDir()
	started, err := provider(t).Start(t.Context(), cfg)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, started.Stop(context.Background())) })
	return started.(*server)
}

// owner keeps account, as a janitor would.
type owner struct {
	mu    sync.Mutex
	names []string
}

func (o *owner) OwnProcess(int) error { return nil }
func (o *owner) OwnDir(string) error  { return nil }

func (o *owner) Own(kind, value string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.names = append(o.names, kind+" "+value)
	return nil
}

func named(t *testing.T, name string) []string {
	t.Helper()
	return list(t, make(client.Filters).Add("name", name))
}

func TestAnAbsentDaemonIsToldWithItsMend(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		host func(t *testing.T) string
		want []string
	}{
		"no socket": {
			func(t *testing.T) string { return "unix://" + filepath.Join(t.TempDir(), "none.sock") },
			[]string{"no Docker daemon answers", "no such file", "systemctl start docker"},
		},
		"nobody at the socket": {
			func(t *testing.T) string { return "tcp://127.0.0.1:1" },
			[]string{"no Docker daemon answers", "Cannot connect", "DOCKER_HOST"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := askChild(t, tc.host(t))
			for _, want := range tc.want {
				assert.Check(t, is.Contains(out, want))
			}
		})
	}
}

// askVariable makes the test binary ask whether Docker is available. It
// is a process of its own, since testcontainers looks once per process.
const askVariable = "DEADWIRE_DOCKER_TEST_ASK"

func askChild(t *testing.T, host string) string {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), askVariable+"=1", "DOCKER_HOST="+host, "HOME="+t.TempDir())
	out, err := child.CombinedOutput()
	assert.NilError(t, err, string(out))
	return string(out)
}

func answerParent() { fmt.Println(New(Options{}).Available(context.Background())) }

func TestAnImageThatCannotBePulledIsTold(t *testing.T) {
	t.Parallel()
	provider(t)
	p := New(Options{Image: "127.0.0.1:1/nobody/postgres:18"})
	here, err := p.Present(t.Context())
	assert.NilError(t, err)
	assert.Assert(t, !here)
	var failed *PullError
	err = p.Prepare(t.Context())
	assert.Assert(t, errors.As(err, &failed), "got %v", err)
	assert.ErrorContains(t, err, "--postgres-image")
}

func TestReservedSettingsAreRefusedBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	account := &owner{}
	_, err := New(Options{}).Start(t.Context(), pg.Config{Dir: t.TempDir(), Owner: account, Settings: map[string]string{"port": "1"}})
	var reserved *cluster.ReservedError
	assert.Assert(t, errors.As(err, &reserved), "got %v", err)
	assert.Equal(t, len(account.names), 0)
}

func TestADyingServerFailsTheStartAtOnceWithItsLog(t *testing.T) {
	t.Parallel()
	account := &owner{}
	_, err := provider(t).Start(t.Context(), pg.Config{
		Dir: t.TempDir(), Owner: account, Settings: map[string]string{"shared_preload_libraries": "no_such_library"},
	})
	var died *pg.StartError
	assert.Assert(t, errors.As(err, &died), "got %v", err)
	assert.Assert(t, strings.Contains(strings.Join(died.Log, "\n"), "no_such_library"), "log: %v", died.Log)
	assert.Equal(t, len(account.names), 1)
	assert.Equal(t, len(named(t, strings.TrimPrefix(account.names[0], Kind+" "))), 0)
}

// docker stop by hand, or by a host that shuts down, takes no ten seconds.
func TestStoppingByHandIsQuickAndIsSurvived(t *testing.T) {
	t.Parallel()
	s := start(t, pg.Config{})
	began := time.Now()
	_, err := s.engine.ContainerStop(t.Context(), s.name, client.ContainerStopOptions{})
	assert.NilError(t, err)
	assert.Assert(t, time.Since(began) < 5*time.Second, "took %v", time.Since(began))
	assert.ErrorIs(t, s.Restart(t.Context(), pg.Fast), errGone)
	assert.NilError(t, s.Stop(t.Context()))
	assert.Equal(t, len(named(t, s.name)), 0)
}

func TestAStopLeavesNoContainerVolumeOrGoroutine(t *testing.T) {
	s := start(t, pg.Config{})
	before := goleak.IgnoreCurrent()
	second := start(t, pg.Config{})
	assert.NilError(t, second.Stop(t.Context()))
	goleak.VerifyNone(t, before)
	assert.NilError(t, s.Stop(t.Context()))
	assert.Equal(t, len(named(t, s.name)), 0)
	volumes, err := exec.Command("docker", "volume", "ls", "-q").Output()
	if err == nil {
		assert.Equal(t, strings.TrimSpace(string(volumes)), "")
	}
}

func TestManyStartAtOnce(t *testing.T) {
	t.Parallel()
	p := provider(t)
	var starters errgroup.Group
	for range 8 {
		dir := t.TempDir()
		starters.Go(func() error {
			s, err := p.Start(t.Context(), pg.Config{Dir: dir})
			if err != nil {
				return err
			}
			return s.Stop(context.Background())
		})
	}
	assert.NilError(t, starters.Wait())
}

// A run that is killed between making a container and starting it leaves one
// that nothing ends by itself.
func TestTheJanitorRemovesAContainerThatNeverStarted(t *testing.T) {
	t.Parallel()
	provider(t)
	name := newName()
	c, err := connect(t.Context())
	assert.NilError(t, err)
	defer func() { assert.Check(t, c.Close()) }()
	_, err = c.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Name: name, Config: &container.Config{Image: os.Getenv(imageVariable), Cmd: []string{"true"}},
	})
	assert.NilError(t, err)
	assert.Equal(t, len(named(t, name)), 1)
	assert.NilError(t, Remove(t.Context(), name))
	assert.Equal(t, len(named(t, name)), 0)
	assert.NilError(t, Remove(t.Context(), name), "removing twice")
	assert.ErrorContains(t, Remove(t.Context(), "somebody-elses"), "not one of deadwire's")
}
