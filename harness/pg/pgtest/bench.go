package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"gotest.tools/v3/assert"

	"deadwire/harness/pg"
	"deadwire/harness/pg/cluster"
)

// benchRounds is how often each way is timed, in turn with the others, so that
// the machine's moods meet them all alike.
const benchRounds = 9

// timing collects durations by name.
type timing map[string][]time.Duration

func (t timing) add(b *testing.B, name string, do func() error) {
	b.Helper()
	begin := time.Now()
	assert.NilError(b, do())
	t[name] = append(t[name], time.Since(begin))
}

func (t timing) median(name string) time.Duration {
	sorted := slices.Sorted(slices.Values(t[name]))
	return sorted[len(sorted)/2]
}

// report publishes each median, and its ratio to the base's.
func (t timing) report(b *testing.B, base string) {
	b.ReportMetric(0, "ns/op")
	for name := range t {
		median := t.median(name)
		b.ReportMetric(float64(median.Microseconds())/1000, name+"-ms")
		b.ReportMetric(float64(median)/float64(t.median(base)), name+"-ratio")
	}
}

// BenchmarkStart times a cold and a warm start against initdb and pg_ctl start,
// side by side.
func BenchmarkStart(b *testing.B, provider pg.Provider) {
	ctx, times := b.Context(), timing{}
	warmCache := b.TempDir()
	startOnce(b, provider, warmCache, func(start func() error) { assert.NilError(b, start()) })
	for b.Loop() {
		for range benchRounds {
			hand := newHand(b)
			times.add(b, "byhand", func() error { return hand.start(ctx) })
			hand.stop(b)
			startOnce(b, provider, warmCache, func(start func() error) { times.add(b, "warm", start) })
			startOnce(b, provider, b.TempDir(), func(start func() error) { times.add(b, "cold", start) })
		}
	}
	times.report(b, "byhand")
}

func startOnce(b *testing.B, provider pg.Provider, cache string, measure func(start func() error)) {
	b.Helper()
	var server pg.Server
	measure(func() (err error) {
		server, err = provider.Start(b.Context(), pg.Config{Dir: b.TempDir(), CacheDir: cache})
		return err
	})
	assert.NilError(b, server.Stop(context.Background()))
}

// hand is a cluster as one would make it by hand.
type hand struct {
	bin, dir string
	as       *syscall.Credential
}

func newHand(b *testing.B) *hand {
	b.Helper()
	dir, err := os.MkdirTemp("", "deadwire-byhand-")
	assert.NilError(b, err)
	b.Cleanup(func() { assert.Check(b, os.RemoveAll(dir)) })
	postgres, err := exec.LookPath("postgres")
	assert.NilError(b, err, "the benchmark needs postgres on PATH")
	postgres, err = filepath.EvalSymlinks(postgres)
	assert.NilError(b, err)
	h := &hand{bin: filepath.Dir(postgres), dir: dir}
	if os.Geteuid() == 0 {
		const nobody = 65534
		h.as = &syscall.Credential{Uid: nobody, Gid: nobody}
		assert.NilError(b, os.Chown(dir, nobody, nobody))
	}
	return h
}

func (h *hand) start(ctx context.Context) error {
	options := fmt.Sprintf("-c listen_addresses= -c unix_socket_directories=%s -c fsync=off", h.dir)
	if err := h.run(ctx, "initdb", "-N", "-A", "trust", "-D", h.data()); err != nil {
		return err
	}
	return h.run(ctx, "pg_ctl", "start", "-w", "-D", h.data(), "-o", options, "-l", filepath.Join(h.dir, "log"))
}

func (h *hand) stop(b *testing.B) {
	b.Helper()
	assert.NilError(b, h.run(context.Background(), "pg_ctl", "stop", "-m", "immediate", "-D", h.data()))
}

func (h *hand) data() string { return filepath.Join(h.dir, "data") }

func (h *hand) run(ctx context.Context, tool string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(h.bin, tool), args...)
	cmd.Dir, cmd.SysProcAttr = h.dir, &syscall.SysProcAttr{Credential: h.as}
	out := &strings.Builder{}
	if tool == "initdb" { // pg_ctl's server would keep a pipe open
		cmd.Stdout, cmd.Stderr = out, out
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", tool, err, out)
	}
	return nil
}

// BenchmarkClone times a clone against a bare CREATE DATABASE … TEMPLATE by the
// server's default, and against both strategies where there is a choice.
func BenchmarkClone(b *testing.B, provider pg.Provider) {
	server, err := provider.Start(b.Context(), pg.Config{Dir: b.TempDir(), CacheDir: b.TempDir()})
	assert.NilError(b, err)
	defer func() { assert.Check(b, server.Stop(context.Background())) }()
	databases := pg.NewDatabases(server)
	template, err := databases.Template(b.Context(), "bench", manyTables)
	assert.NilError(b, err)
	conn, err := pg.Admin(b.Context(), server)
	assert.NilError(b, err)
	defer func() { assert.Check(b, conn.Close(context.Background())) }()
	ways := []string{"bare"}
	if server.Version().Major >= cluster.StrategySince {
		ways = append(ways, "wal_log", "file_copy")
	}
	times := timing{}
	for b.Loop() {
		for range benchRounds {
			for _, way := range ways {
				bareClone(b, conn, template, way, times)
			}
			var db *pg.Database
			times.add(b, "clone", func() (err error) { db, err = databases.Clone(b.Context(), template); return err })
			assert.NilError(b, db.Drop(b.Context()))
		}
	}
	times.report(b, "bare")
}

func bareClone(b *testing.B, conn *pgx.Conn, template, way string, times timing) {
	b.Helper()
	statement := "CREATE DATABASE bare TEMPLATE " + template
	if way != "bare" {
		statement += " STRATEGY " + way
	}
	times.add(b, way, func() error {
		_, err := conn.Exec(b.Context(), statement)
		return err
	})
	_, err := conn.Exec(b.Context(), "DROP DATABASE bare WITH (FORCE)")
	assert.NilError(b, err)
}

// manyTables is a schema of the size that a migrated application has.
func manyTables(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for i := range 25 {
		if _, err := conn.Exec(ctx, fmt.Sprintf("CREATE TABLE t%d (id bigint PRIMARY KEY, a text, b jsonb); CREATE INDEX ON t%d (a)", i, i)); err != nil {
			return err
		}
	}
	return nil
}
