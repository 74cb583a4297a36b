package command_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/command"
	"deadwire/pipeline/dispatch"
	"deadwire/pipeline/schema/schematest"
	"deadwire/pipeline/session"
)

func TestHealthyRunFromEmptyDatabaseToVotes(t *testing.T) {
	t.Parallel()
	r := setup(t)
	assert.Assert(t, strings.Contains(r.ok("migrate"), "schema version"))
	r.catalog = t.TempDir()
	r.ok("catalog", "generate", "--cards", "24", "--seed", "7", "--damaged", "0.1", "--out", r.catalog)
	assert.Assert(t, strings.Contains(r.ok("catalog", "import", r.catalog), "24 cards (24 changed), 24 printings (0 changed)"))
	p := r.stream("", "--run-id", "first", "--recycle-after", "4")
	assert.Equal(t, p.wait(), 0, p.stderr.String())
	result := p.result()
	assert.Equal(t, result["status"], dispatch.Complete)
	assert.Equal(t, result["run"], "first")
	r.assertConverged()
	assert.Assert(t, p.logged("coordinator session ready")["backend_pid"] != nil)
	assert.Assert(t, len(p.workers()) == 3)
	assert.Equal(t, r.count("pilot_run_ledger where status <> 'completed'"), 0)
	again := r.resume()
	assert.Equal(t, again["batches"], 0.0)
	var status struct{ Totals map[string]int }
	assert.NilError(t, json.Unmarshal([]byte(r.ok("status", "--json")), &status))
	assert.Equal(t, status.Totals["cards"], cards)
	assert.Equal(t, status.Totals["extracted"], status.Totals["hashed"])
}

func TestMigrateAndWorkerSeeTheFlagBeforeTheEnvironment(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, url: "postgres://127.0.0.1:1/nowhere?sslmode=disable"}
	p := r.start("", "migrate")
	assert.Equal(t, p.wait(), 1)
	assert.Assert(t, strings.HasPrefix(p.lastLine(), "conveyor: migrate: open session conveyor/migrate: "), p.lastLine())
	r.ok("migrate", "--database-url", schematest.Empty(t))
}

func TestDatabaseThatWasNeverMigratedIsToldTheMend(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, url: schematest.Empty(t), catalog: os.Getenv(catalogEnv)}
	for _, args := range [][]string{{"stream", "--source", r.catalog}, {"status"}, {"check"}, {"catalog", "import", r.catalog}} {
		p := r.start("", args...)
		assert.Equal(t, p.wait(), 1)
		assert.Assert(t, strings.HasPrefix(p.lastLine(), "conveyor: the database lacks tables of this version: run conveyor migrate ("), p.lastLine())
	}
}

func TestSecondStreamOnAScopeIsRefusedByName(t *testing.T) {
	t.Parallel()
	r := setup(t)
	release := r.held()
	first := r.stream("job-waits")
	holder := first.logged("coordinator session ready")["backend_pid"].(float64)
	first.logged("waiting")
	second := r.stream("")
	assert.Equal(t, second.wait(), command.CodeThrottled)
	assert.Assert(t, strings.Contains(second.lastLine(), fmt.Sprintf("backend pid %d", int(holder))), second.lastLine())
	assert.Equal(t, r.count("pilot_run_ledger"), 1)
	release()
	assert.Equal(t, first.wait(), 0, first.stderr.String())
	r.assertConverged()
}

func TestReaderWhoLeftDoesNotDemoteTheRun(t *testing.T) {
	t.Parallel()
	r := setup(t)
	reader, writer, err := os.Pipe()
	assert.NilError(t, err)
	p := r.command("", "stream", "--source", r.catalog)
	p.cmd.Stdout = writer
	assert.NilError(t, reader.Close())
	p.run()
	assert.NilError(t, writer.Close())
	assert.Equal(t, p.wait(), 0, p.stderr.String())
	assert.Equal(t, r.count("pilot_run_ledger where status <> 'completed'"), 0)
	r.assertConverged()
}

// source serves the catalogue's folder and answers chosen images by a status.
func source(t *testing.T, r *rig, status int, images ...string) string {
	t.Helper()
	files := http.FileServer(http.Dir(r.catalog))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		for _, image := range images {
			if strings.Contains(req.URL.Path, image) {
				w.WriteHeader(status)
				_, _ = w.Write([]byte("not the image")) // a client that left is no matter
				return
			}
		}
		files.ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestSourceTroubleLeavesWorkAndSaysSo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		code   int
		word   string
		skip   string
	}{
		"missing":     {http.StatusNotFound, command.CodeWorkLeft, dispatch.WorkLeft, dispatch.FetchFailed},
		"throttled":   {http.StatusTooManyRequests, command.CodeWorkLeft, dispatch.WorkLeft, dispatch.FetchThrottle},
		"wrong bytes": {http.StatusOK, command.CodeWorkLeft, dispatch.WorkLeft, dispatch.WrongImage},
		"locked out":  {http.StatusForbidden, command.CodeHalted, dispatch.LockedOut, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			p := r.start("", "stream", "--json", "--source", source(t, r, c.status, "/000002.", "/000013."))
			assert.Equal(t, p.wait(), c.code, p.stderr.String())
			assert.Equal(t, p.result()["status"], c.word)
			assert.Equal(t, r.count("pilot_run_ledger where status <> 'completed'"), 0)
			if c.skip != "" {
				assert.Equal(t, r.count("card_scan_log where anonymous_id = 'stage-c-v1' and skip_reason = $1", c.skip), 2)
			}
			if c.code == command.CodeHalted {
				r.assertHaltedUntilResolved(p.result()["trip"].(string))
			}
			r.resume()
			r.assertConverged()
		})
	}
}

func TestImportFromAURL(t *testing.T) {
	t.Parallel()
	r := setup(t)
	out := r.ok("catalog", "import", source(t, r, 200))
	assert.Assert(t, strings.Contains(out, "24 cards (24 changed), 24 printings (0 changed)"), out)
	assert.Equal(t, r.count("source"), 2)
}

func TestCheckFindsABrokenPromise(t *testing.T) {
	t.Parallel()
	r := setup(t)
	_, err := r.db.Exec(t.Context(), "update card set printing_tag_status = 'resolved' where id = 3")
	assert.NilError(t, err)
	p := r.start("", "check", "--json")
	assert.Equal(t, p.wait(), command.CodeError)
	assert.Equal(t, p.result()["ok"], false)
	assert.Assert(t, strings.Contains(p.stdout.String(), "card 3 is resolved"))
	assert.Equal(t, p.lastLine(), "conveyor: check: a promise is broken")
}

func TestBadInvocationsAreOneLine(t *testing.T) {
	t.Parallel()
	r := &rig{t: t}
	missing := filepath.Join(t.TempDir(), "missing")
	for want, args := range map[string][]string{
		`conveyor: required flag(s) "source" not set`:                                        {"stream"},
		"conveyor: batch must be between 1 and 10000":                                        {"stream", "--source", "x", "--batch", "-1"},
		"conveyor: run-id must not be longer than 40 bytes":                                  {"stream", "--source", "x", "--run-id", strings.Repeat("x", 41)},
		`conveyor: parse source: scheme "ftp", want file, http or https`:                     {"stream", "--source", "ftp://x"},
		"conveyor: import catalogue: no such folder: " + missing + "/ (file does not exist)": {"catalog", "import", missing},
		`conveyor: unknown command "fly" for "conveyor"`:                                     {"fly"},
	} {
		p := r.start("", args...)
		assert.Equal(t, p.wait(), 1)
		assert.Equal(t, strings.TrimSpace(p.stderr.String()), want)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		code int
	}{
		"no error":     {nil, 0},
		"any error":    {errors.New("x"), 1},
		"carried":      {fmt.Errorf("stream: %w", &command.ExitError{Code: 3, Err: errors.New("x")}), 3},
		"scope held":   {fmt.Errorf("stream: %w", &session.HeldError{Scope: "x"}), 4},
		"no slot":      {fmt.Errorf("stream: %w", dispatch.ErrThrottled), 4},
		"batch failed": {&dispatch.BatchError{Err: errors.New("x")}, 1},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, command.ExitCode(c.err), c.code) })
	}
}
