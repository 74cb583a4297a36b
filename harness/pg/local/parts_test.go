package local

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/harness/pg"
	"deadwire/harness/pg/cluster"
)

// fakeInit is an initdb that makes just enough of a data folder.
const fakeInit = `#!/bin/sh
for a; do case $a in --pgdata=*) d=${a#*=};; esac; done
mkdir -p "$d/base" "$d/pg_wal" && echo 15 >"$d/PG_VERSION" && : >"$d/postgresql.conf"
`

// fakeInstallation returns an installation whose initdb takes no time.
func fakeInstallation(t *testing.T) (*account, *binaries) {
	t.Helper()
	as, err := chooseAccount()
	assert.NilError(t, err)
	dir, err := os.MkdirTemp("", "deadwire-fake-") // not t.TempDir: an unprivileged user enters it
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, os.RemoveAll(dir)) })
	assert.NilError(t, os.Chmod(dir, 0o755))
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "initdb"), []byte(fakeInit), 0o755))
	return as, &binaries{dir: dir, version: pg.Version{Major: 15}}
}

func TestCacheIsFilledOnceAndMendsItself(t *testing.T) {
	t.Parallel()
	as, b := fakeInstallation(t)
	c, err := openCache(t.TempDir(), as)
	assert.NilError(t, err)
	clone := func() (string, pg.Password) {
		target := filepath.Join(t.TempDir(), "data")
		password, err := c.clone(t.Context(), b, target)
		assert.NilError(t, err)
		return target, password
	}
	target, first := clone()
	_, again := clone()
	assert.Equal(t, first.Reveal(), again.Reveal(), "the entry was made twice")
	version, err := os.ReadFile(filepath.Join(target, "PG_VERSION"))
	assert.NilError(t, err)
	assert.Equal(t, strings.TrimSpace(string(version)), strconv.Itoa(b.version.Major))

	damages := map[string]func(entry string) error{
		"no manifest":   func(entry string) error { return os.Remove(filepath.Join(entry, manifestName)) },
		"torn manifest": func(entry string) error { return os.Truncate(filepath.Join(entry, manifestName), 10) },
		"file gone":     func(entry string) error { return os.Remove(filepath.Join(entry, "data", "PG_VERSION")) },
		"file cut":      func(entry string) error { return os.Truncate(filepath.Join(entry, "data", "PG_VERSION"), 0) },
		"data gone":     func(entry string) error { return os.RemoveAll(filepath.Join(entry, "data")) },
	}
	for name, damage := range damages {
		assert.NilError(t, damage(c.entry(b)))
		_, mended := clone()
		assert.Assert(t, mended.Reveal() != first.Reveal(), "%s: not made again", name)
		first = mended
	}
}

func TestCacheIgnoresWhatAKilledBuildLeft(t *testing.T) {
	t.Parallel()
	as, b := fakeInstallation(t)
	c, err := openCache(t.TempDir(), as)
	assert.NilError(t, err)
	assert.NilError(t, os.MkdirAll(filepath.Join(c.entry(b)+".half", "data", "base"), 0o700))
	_, err = c.clone(t.Context(), b, filepath.Join(t.TempDir(), "data"))
	assert.NilError(t, err)
	_, err = os.Stat(c.entry(b) + ".half")
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// A port can be taken between the choice and the postmaster's bind.
func TestATakenPortIsTold(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	assert.NilError(t, err)
	defer func() { _ = listener.Close() }()
	s := startServer(t)
	assert.NilError(t, s.shutDown(t.Context(), syscall.SIGINT))
	taken := listener.Addr().(*net.TCPAddr).Port
	err = s.boot(t.Context(), taken)
	assert.ErrorIs(t, err, errPortTaken)
	assert.NilError(t, s.bootAnywhere(t.Context()))
	assert.Assert(t, s.Address().Port != taken)
}

func startServer(t *testing.T) *server {
	t.Helper()
	base, err := os.UserCacheDir()
	assert.NilError(t, err)
	started, err := New(Options{}).Start(t.Context(), pg.Config{Dir: t.TempDir(), CacheDir: filepath.Join(base, "deadwire", "test")})
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, started.Stop(context.Background())) })
	return started.(*server)
}

func TestHomeIsInsideTheGivenFolderWhenThatCanBe(t *testing.T) {
	t.Parallel()
	ourselves := &account{uid: os.Geteuid(), gid: os.Getegid()}
	given, err := os.MkdirTemp("", "dw-") // short, unlike t.TempDir
	assert.NilError(t, err)
	defer func() { assert.Check(t, os.RemoveAll(given)) }()
	deep := filepath.Join(given, strings.Repeat("d", socketDirBytesMax))
	comma := filepath.Join(given, "a,b")
	assert.NilError(t, errors.Join(os.Mkdir(deep, 0o700), os.Mkdir(comma, 0o700)))

	inside, err := newHome(given, ourselves)
	assert.NilError(t, err)
	assert.Equal(t, inside.dir, given)
	assert.NilError(t, inside.remove())
	_, err = os.Stat(given)
	assert.NilError(t, err, "the given folder is the caller's")

	for _, unfit := range []string{deep, comma} {
		outside, err := newHome(unfit, ourselves)
		assert.NilError(t, err)
		assert.Assert(t, outside.temp && fitsSocket(outside.dir))
		assert.NilError(t, outside.remove())
		_, err = os.Stat(outside.dir)
		assert.ErrorIs(t, err, os.ErrNotExist)
	}
}

func TestAccountReaches(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stranger := &account{uid: os.Geteuid() + 4321, gid: os.Getegid() + 4321, switched: true}
	assert.Assert(t, !stranger.reaches(dir), "a private folder")
	assert.Assert(t, stranger.reaches("/"))
	assert.Assert(t, !stranger.reaches(filepath.Join(dir, "missing")))
	assert.Assert(t, (&account{}).reaches(dir), "ourselves")
}

func TestSweepTakesOnlyWhatIsLeftOver(t *testing.T) {
	t.Parallel()
	as := &account{uid: os.Geteuid(), gid: os.Getegid()}
	used, err := newHome("", as)
	assert.NilError(t, err)
	left, err := newHome("", as)
	assert.NilError(t, err)
	assert.NilError(t, left.lock.Close()) // as our death would do
	base := filepath.Dir(left.dir)
	young, err := os.MkdirTemp(base, homePrefix)
	assert.NilError(t, err)
	old, err := os.MkdirTemp(base, homePrefix)
	assert.NilError(t, err)
	long := time.Now().Add(-2 * strayAge)
	assert.NilError(t, os.Chtimes(old, long, long))

	assert.NilError(t, sweep(t.Context(), as))
	for dir, stays := range map[string]bool{used.dir: true, left.dir: false, young: true, old: false} {
		_, err := os.Stat(dir)
		assert.Equal(t, err == nil, stays, "%s: %v", dir, err)
	}
	assert.NilError(t, errors.Join(used.remove(), os.RemoveAll(young)))
}

func TestIdentityTellsAProcessFromItsSuccessor(t *testing.T) {
	t.Parallel()
	me := identify(os.Getpid())
	assert.Assert(t, alive(me))
	assert.Assert(t, !alive(identity{PID: me.PID, Started: me.Started + 1}))
	assert.NilError(t, end(t.Context(), identity{PID: me.PID, Started: me.Started + 1}), "it must not be signalled")
	assert.Assert(t, !alive(identity{PID: 1 << 22}))
}

func TestParseSegment(t *testing.T) {
	t.Parallel()
	left, known := parseSegment("4711\n/d\n1700000000\n5432\n/s\n127.0.0.1\n  10012345        65545\nready   \n")
	assert.Assert(t, known)
	assert.Equal(t, left, segment{id: 65545, creator: 4711})
	for _, text := range []string{"", "4711\n", "a\nb\nc\nd\ne\nf\ng h\n", "1\n2\n3\n4\n5\n6\n7\n"} {
		_, known := parseSegment(text)
		assert.Assert(t, !known, "%q", text)
	}
}

func TestThinKeepsTheContent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	content := make([]byte, 3<<20+5)
	content[0], content[2<<20], content[len(content)-1] = 'a', 'b', 'c'
	assert.NilError(t, os.WriteFile(path, content, 0o600))
	assert.NilError(t, thin(path))
	copied := path + ".copy"
	size, err := copyFile(path, copied, &account{})
	assert.NilError(t, err)
	assert.Equal(t, size, int64(len(content)))
	for _, name := range []string{path, copied} {
		got, err := os.ReadFile(name)
		assert.NilError(t, err)
		assert.Assert(t, bytes.Equal(got, content), "%s differs", name)
		info, err := os.Stat(name)
		assert.NilError(t, err)
		assert.Assert(t, info.Sys().(*syscall.Stat_t).Blocks*512 < 1<<20, "%s is not sparse", name)
	}
}

func TestCopyPortablyCopiesEverything(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	assert.NilError(t, os.WriteFile(path, []byte("content"), 0o600))
	for range 2 { // over what a first attempt left
		size, err := copyPortably(path, path+".copy", &account{})
		assert.NilError(t, err)
		assert.Equal(t, size, int64(len("content")))
	}
	got, err := os.ReadFile(path + ".copy")
	assert.NilError(t, err)
	assert.Equal(t, string(got), "content")
}

func TestEnvironmentHidesOurOwnSettings(t *testing.T) {
	t.Setenv("PGDATA", "/elsewhere")
	for _, line := range environment() {
		assert.Assert(t, !strings.HasPrefix(line, "PG"), line)
	}
}

func TestInstallHintNamesACommand(t *testing.T) {
	t.Parallel()
	assert.Assert(t, strings.Contains(installHint(), "install"))
	assert.Equal(t, len(lastLines(strings.Repeat("x\n", 100))), cluster.TailLines)
}
