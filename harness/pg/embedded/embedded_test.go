package embedded_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"deadwire/harness/pg"
	"deadwire/harness/pg/embedded"
	"deadwire/harness/pg/pgtest"
)

// cacheVariable tells the suite's child where the binaries are.
const cacheVariable = "DEADWIRE_EMBEDDED_TEST_CACHE"

func TestMain(m *testing.M) {
	if code, child := embedded.Main(); child {
		os.Exit(code)
	}
	os.Exit(pgtest.Main(m, pgtest.Makers{embedded.Name: func(string) pg.Provider {
		return embedded.New(embedded.Options{Major: major, CacheDir: os.Getenv(cacheVariable)})
	}}))
}

func TestProvider(t *testing.T) {
	r, cache := newRepository(t), cacheFolder(t)
	t.Setenv(cacheVariable, cache)
	pgtest.Exercise(t, func(*testing.T) pg.Provider { return provider(r, cache, nil) })
	t.Cleanup(func() { assert.Equal(t, r.hits.Load(), int32(1), "the binaries were fetched more than once") })
}

func provider(r *served, cache string, progress func(string)) *embedded.Provider {
	return embedded.New(embedded.Options{Major: major, Repository: r.URL, CacheDir: cache, Progress: progress})
}

func TestFetchesOnceWhoeverAsks(t *testing.T) {
	t.Parallel()
	r, cache := newRepository(t), cacheFolder(t)
	var mu sync.Mutex
	var told []string
	var callers errgroup.Group
	for range 8 {
		p := provider(r, cache, func(text string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, text)
		})
		assert.NilError(t, p.Available(t.Context()))
		callers.Go(func() error { return p.Prepare(t.Context()) })
	}
	assert.NilError(t, callers.Wait())
	assert.Equal(t, r.hits.Load(), int32(1))
	assert.Assert(t, len(told) > 0 && strings.Contains(told[len(told)-1], ".jar"), "progress: %q", told)
	for _, path := range contents(t, cache) {
		info, err := os.Lstat(path)
		assert.NilError(t, err)
		assert.Equal(t, int(info.Sys().(*syscall.Stat_t).Uid), os.Geteuid(), "%s is not ours", path)
	}
	r.Close() // from now on nothing is asked of the network
	again := provider(r, cache, nil)
	assert.Assert(t, again.Present())
	assert.NilError(t, again.Prepare(t.Context()))
}

func TestAFailedFetchIsOneMessageAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		wrong func(*served)
		want  string
	}{
		"no network":     {func(r *served) { r.Close() }, "connection refused"},
		"no such file":   {func(r *served) { r.none = true }, "404 Not Found"},
		"wrong checksum": {func(r *served) { r.sum = func() string { return strings.Repeat("0", 64) } }, "checksums do not match"},
		"no checksum":    {func(r *served) { r.sum = func() string { return "" } }, ".sha256"},
		"broken off":     {func(r *served) { r.serve = breakOff }, "broke off after"},
		"no archive":     {func(r *served) { r.jar = []byte("no zip at all") }, "zip"},
		"damaged inside": {func(r *served) { r.jar = damaged(r.jar) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, cache := newRepository(t), cacheFolder(t)
			tc.wrong(r)
			err := provider(r, cache, nil).Prepare(t.Context())
			var failed *embedded.FetchError
			assert.Assert(t, errors.As(err, &failed), "got %v", err)
			assert.ErrorContains(t, err, tc.want)
			assert.Check(t, !strings.Contains(err.Error(), "\n"), "more than one line: %s", err)
			assert.Check(t, is.Len(contents(t, cache), 0))
		})
	}
}

func damaged(jar []byte) []byte {
	return slices.Concat(jar[:1000], make([]byte, 1000), jar[2000:])
}

// breakOff promises more than it sends.
func breakOff(w http.ResponseWriter, jar []byte) {
	w.Header().Set("Content-Length", "100000000")
	_, _ = w.Write(jar[:100_000])
	panic(http.ErrAbortHandler)
}

func TestACancelledFetchLeavesNothing(t *testing.T) {
	t.Parallel()
	r, cache := newRepository(t), cacheFolder(t)
	ctx, cancel := context.WithCancel(t.Context())
	stalled := make(chan struct{})
	t.Cleanup(func() { close(stalled) })
	r.serve = func(w http.ResponseWriter, jar []byte) {
		_, _ = w.Write(jar[:1000])
		cancel()
		<-stalled
	}
	err := provider(r, cache, nil).Prepare(ctx)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Check(t, is.Len(contents(t, cache), 0))
}

func TestWhatAKilledFetchLeftIsInNobodysWay(t *testing.T) {
	t.Parallel()
	r, cache := newRepository(t), cacheFolder(t)
	half := filepath.Join(cache, "15.13.0.half", "unpacked")
	assert.NilError(t, os.MkdirAll(half, 0o700))
	assert.NilError(t, os.WriteFile(filepath.Join(half, "postgres"), []byte("part"), 0o700))
	assert.NilError(t, provider(r, cache, nil).Prepare(t.Context()))
	_, err := os.Stat(filepath.Dir(half))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestOnlySupportedMajorsAreOffered(t *testing.T) {
	t.Parallel()
	for major := pg.MajorMin; major <= pg.MajorMax; major++ {
		assert.NilError(t, embedded.New(embedded.Options{Major: major, CacheDir: t.TempDir()}).Available(t.Context()))
	}
	assert.ErrorContains(t, embedded.New(embedded.Options{Major: 12}).Available(t.Context()), "only majors")
}
