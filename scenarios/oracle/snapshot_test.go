package oracle_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"gotest.tools/v3/assert"

	"deadwire/harness/pg"
	"deadwire/harness/pg/local"
	"deadwire/scenarios/oracle"
)

// startMax bounds building conveyor and starting a server, once for all tests.
const startMax = 8 * time.Minute

// serverEnv hands the URL of the server from TestMain to the tests.
const serverEnv = "ORACLE_TEST_SERVER"

const template = "oracle_template"

func TestMain(m *testing.M) {
	code, err := withServer(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle tests:", err)
		code = 1
	}
	os.Exit(code)
}

// withServer runs the tests beside a server whose template database conveyor
// itself has migrated, so that the queries meet its real tables.
func withServer(run func() int) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startMax)
	defer cancel()
	dir, err := os.MkdirTemp("", "oracle-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	home := filepath.Join(dir, "server")
	if err := os.Mkdir(home, 0o700); err != nil {
		return 1, err
	}
	server, err := local.New(local.Options{}).Start(ctx, pg.Config{Dir: home})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, server.Stop(context.Background())) }()
	if err := migrate(ctx, server, filepath.Join(dir, "conveyor")); err != nil {
		return 1, err
	}
	if err := os.Setenv(serverEnv, server.Address().URL(server.Address().Database)); err != nil {
		return 1, err
	}
	return run(), nil
}

func migrate(ctx context.Context, server pg.Server, conveyor string) error {
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", conveyor, "deadwire/cmd/conveyor").CombinedOutput(); err != nil {
		return fmt.Errorf("build conveyor: %w: %s", err, out)
	}
	admin, err := pg.Admin(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close(ctx) }()
	if _, err := admin.Exec(ctx, "create database "+template); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, conveyor, "migrate")
	cmd.Env = append(os.Environ(), "DATABASE_URL="+server.Address().URL(template))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("migrate: %w: %s", err, out)
	}
	return nil
}

// database returns two sessions in a migrated database of the test's own: the
// harness's, and the subject's with that application name.
func database(t *testing.T, application string) (ours, theirs *pgx.Conn) {
	t.Helper()
	name := fmt.Sprintf("t%d", time.Now().UnixNano())
	admin := connect(t, "", pg.AdminName)
	_, err := admin.Exec(t.Context(), "create database "+name+" template "+template)
	assert.NilError(t, err)
	return connect(t, name, pg.AdminName), connect(t, name, application)
}

func connect(t *testing.T, name, application string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(os.Getenv(serverEnv))
	assert.NilError(t, err)
	if name != "" {
		config.Database = name
	}
	config.RuntimeParams["application_name"] = application
	conn, err := pgx.ConnectConfig(t.Context(), config)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, conn.Close(context.Background())) })
	return conn
}

const rows = `
insert into source (key, name, identifier, source_type) values ('s', 's', 's', 'http_index');
insert into printing (identifier, canonical_id, name, normal_name, set_code, collector_number)
  values ('00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000002', 'N', 'n', 'set', '1');
insert into card (identifier, source_id, name, file, content_phash) values ('b', 1, 'B', 'b.png', 7), ('a', 1, 'A', 'a.png', null);
insert into image_evidence (card_id, content_hash, extractor_versions, run_id, width) values (1, 7, '{}', 'r1', 100);
insert into card_printing_tag (card_id, printing_id, anonymous_id, source, confidence, run_id) values (1, 1, 'ocr-v1', 'ocr', 0.75, 'r1');
insert into card_printing_tag (card_id, is_no_match, anonymous_id, source) values (2, true, 'somebody', 'user');
insert into card_scan_log (card_id, anonymous_id, run_id, skip_reason) values (2, 'fetch', 'r1', 'no hash');
insert into pilot_run_ledger (run_id, data_run_id, command, status, finished_at, counters) values
  ('r1', 'd', 'stream', 'completed', now(), '{"elapsed_s": 1.5}'), ('r2', 'd', 'stream', 'failed', now(), '{"failure_reason": "worker 1 died"}');
insert into pilot_run_ledger (run_id, data_run_id, command) values ('r3', 'd', 'stream')`

func TestTakeReadsEveryTable(t *testing.T) {
	t.Parallel()
	ours, theirs := database(t, "conveyor/coordinator")
	_, err := theirs.Exec(t.Context(), rows)
	assert.NilError(t, err)
	_, err = theirs.Exec(t.Context(), "select pg_advisory_lock(12, 34)")
	assert.NilError(t, err)
	got, err := oracle.Take(t.Context(), ours)
	assert.NilError(t, err)
	assert.Assert(t, len(got.Evidence) == 1 && got.Evidence[0].Digest != "")
	got.Evidence[0].Digest = ""
	pid := int(theirs.PgConn().PID())
	assert.DeepEqual(t, got, oracle.Snapshot{
		Cards:    []oracle.Card{{Identifier: "a", Status: "unresolved"}, {Identifier: "b", Hashed: true, Status: "unresolved"}},
		Evidence: []oracle.Evidence{{Card: "b", Hash: 7, RunID: "r1"}},
		Votes: []oracle.Vote{
			{Card: "a", NoMatch: true, Agent: "somebody", Source: "user"},
			{Card: "b", Printing: "00000000-0000-0000-0000-000000000001", Agent: "ocr-v1", Source: "ocr", Confidence: 0.75, RunID: "r1"},
		},
		Scans: []oracle.Scan{{Card: "a", Agent: "fetch", Reason: "no hash", RunID: "r1"}},
		Ledger: []oracle.Entry{
			{RunID: "r1", Status: "completed", Finished: true, Elapsed: true},
			{RunID: "r2", Status: "failed", Finished: true, Reason: "worker 1 died"},
			{RunID: "r3", Status: "running"},
		},
		Sessions: []oracle.Session{{PID: pid, ApplicationName: "conveyor/coordinator", State: "idle"}},
		Locks:    []oracle.Lock{{PID: pid, Class: 12, Key: 34}},
	})
}

func TestTakeOfAFreshDatabaseIsEmpty(t *testing.T) {
	t.Parallel()
	ours, theirs := database(t, pg.AdminName)
	assert.NilError(t, theirs.Close(t.Context()))
	got, err := oracle.Take(t.Context(), ours)
	assert.NilError(t, err)
	assert.Equal(t, len(got.Cards)+len(got.Evidence)+len(got.Votes)+len(got.Scans)+len(got.Ledger), 0)
	assert.Equal(t, len(got.Sessions)+len(got.Locks), 0, "the harness's own sessions are not the subject's: %+v", got.Sessions)
}

func TestResidueSeesOneDatabaseOnly(t *testing.T) {
	t.Parallel()
	ours, _ := database(t, pg.AdminName)
	_, stranger := database(t, "conveyor/slot")
	_, err := stranger.Exec(t.Context(), "select pg_advisory_lock(1)")
	assert.NilError(t, err)
	var s oracle.Snapshot
	assert.NilError(t, oracle.Residue(t.Context(), ours, &s))
	assert.Equal(t, len(s.Sessions)+len(s.Locks), 0, "%+v", s)
}

// Every computed column counts, and so does in which of them a value stands.
func TestDigestTellsColumnsApart(t *testing.T) {
	t.Parallel()
	ours, theirs := database(t, "conveyor/x")
	_, err := theirs.Exec(t.Context(), rows)
	assert.NilError(t, err)
	seen := map[string]string{}
	for _, set := range []string{
		"fetch_ok = null", "fetch_error_class = 'png'", "fetch_error_class = null, fetch_image_format = 'png'",
		"fetch_image_format = 'png|1'", "fetch_image_format = 'png', width = 1", "height = 1, width = null", "layout_class = ''",
		"md5_checksum = repeat('0', 32)", "extractor_versions = '{\"a\": 1}'", "colour_mean = '{1,2,3}'",
	} {
		_, err := theirs.Exec(t.Context(), "update image_evidence set "+set)
		assert.NilError(t, err)
		got, err := oracle.Take(t.Context(), ours)
		assert.NilError(t, err)
		digest := got.Evidence[0].Digest
		assert.Equal(t, seen[digest], "", "the same digest as after: %s", set)
		seen[digest] = set
	}
	_, err = theirs.Exec(t.Context(), "update image_evidence set fetch_latency_ms = 5, updated_at = now(), run_id = 'r9'")
	assert.NilError(t, err)
	got, err := oracle.Take(t.Context(), ours)
	assert.NilError(t, err)
	assert.Assert(t, seen[got.Evidence[0].Digest] != "", "when and by whom is no fact about the image")
}

func TestTakeSaysWhatItCouldNotRead(t *testing.T) {
	t.Parallel()
	empty := connect(t, "", pg.AdminName) // the maintenance database has no tables
	_, err := oracle.Take(t.Context(), empty)
	assert.ErrorContains(t, err, "take snapshot: ")
	ours, _ := database(t, pg.AdminName)
	assert.NilError(t, ours.Close(t.Context()))
	var s oracle.Snapshot
	assert.Assert(t, oracle.Residue(t.Context(), ours, &s) != nil)
}
