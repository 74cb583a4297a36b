package command_test

import (
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"deadwire/pipeline/command"
	"deadwire/pipeline/dispatch"
)

// assertHaltedUntilResolved checks that an open trip lets nothing start, whatever run
// it is, and that only an acknowledgement with a note ends that.
func (r *rig) assertHaltedUntilResolved(trip string) {
	r.t.Helper()
	rows := r.count("pilot_run_ledger")
	for _, driver := range []string{"stream", "sweep"} {
		p := r.start("", driver, "--json", "--source", r.catalog)
		assert.Equal(r.t, p.wait(), command.CodeHalted, p.stderr.String())
		assert.Equal(r.t, p.result()["status"], dispatch.Halted)
		assert.Equal(r.t, p.result()["trip"], trip)
	}
	assert.Equal(r.t, r.count("pilot_run_ledger"), rows, "a refusal writes no row")
	assert.Equal(r.t, r.count("envelope_trip"), 1)
	assert.Assert(r.t, strings.HasPrefix(r.ok("trip", "list"), "open   "+trip))
	assert.Equal(r.t, r.start("", "trip", "resolve", trip, "--note", " ").wait(), 1)
	assert.Equal(r.t, r.start("", "trip", "resolve", "envtrip-none", "--note", "x").wait(), 1)
	assert.Equal(r.t, r.count("envelope_trip where acknowledged_at is null"), 1)
	r.ok("trip", "resolve", trip, "--note", "the source lets us in again")
	p := r.start("", "trip", "resolve", trip, "--note", "once more")
	assert.Equal(r.t, p.wait(), 1)
	assert.Assert(r.t, strings.Contains(p.lastLine(), "trip is closed already"), p.lastLine())
	assert.Equal(r.t, r.count("envelope_trip where acknowledged_note = 'the source lets us in again'"), 1)
}

// contents is a digest of every row of every table.
func (r *rig) contents() string {
	r.t.Helper()
	return r.text(`select string_agg(t.relname || ' ' || md5((xpath('//text()', query_to_xml(
		format('select md5(string_agg(x::text, chr(10) order by x::text)) from %I x', t.relname), true, true, '')))[1]::text), ' ' order by t.relname)
		from pg_class t where t.relkind = 'r' and t.relnamespace = 'public'::regnamespace`)
}

// drivers are the commands that dispatch batches until they are done.
func drivers(source string) map[string][]string {
	return map[string][]string{
		"stream":    {"stream", "--source", source, "--json"},
		"sweep":     {"sweep", "--source", source, "--json"},
		"run":       {"run", "--source", source, "--json"},
		"shakedown": {"shakedown", "--source", source, "--json", "--before", "2020-01-01T00:00:00Z"},
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	t.Parallel()
	r := setup(t)
	hashed := r.count("card where content_phash is not null")
	before := r.contents()
	for name, args := range drivers(r.catalog) {
		p := r.start("", append(args, "--dry-run", "--batch", "5")...)
		assert.Equal(t, p.wait(), 0, "%s: %s", name, p.stderr.String())
		assert.Equal(t, p.result()["need_extraction"], float64(hashed), name)
		assert.Equal(t, p.result()["batches"], float64((hashed+4)/5), name)
		assert.Equal(t, r.contents(), before, name)
	}
	r.assertAtRest()
}

func TestSignalEndsEveryDriverTruthfully(t *testing.T) {
	t.Parallel()
	for name, args := range drivers(os.Getenv(catalogEnv)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			release := r.held()
			defer release()
			p := r.start("job-waits", args...)
			p.logged("waiting")
			assert.NilError(t, p.cmd.Process.Signal(syscall.SIGTERM))
			began := time.Now()
			assert.Equal(t, p.wait(), command.CodeError)
			r.assertInTime(time.Since(began))
			assert.Assert(t, strings.Contains(p.lastLine(), syscall.SIGTERM.String()), p.lastLine())
			assert.Equal(t, r.count("pilot_run_ledger where status = 'running'"), 0)
			assert.Assert(t, r.count("pilot_run_ledger where failure_reason like $1", "%"+syscall.SIGTERM.String()+"%") > 0)
			r.assertAtRest()
		})
	}
}

func TestTransferCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.command("", drivers(r.catalog)["stream"]...)
	p.cmd.Env = append(p.cmd.Env, "STAGE_C_EVIDENCE_TRANSFER_ENABLED=false")
	p.run()
	assert.Equal(t, p.wait(), 0, p.stderr.String())
	assert.Assert(t, r.count("card c where exists (select from card t where t.md5_checksum = c.md5_checksum and t.id < c.id)") > 0, "there are twins")
	assert.Equal(t, r.count("image_evidence where transferred"), 0)
	r.assertConverged()
}

func TestBoundedStreamsGoOnAtTheirMarkAndFinishTheWholeScope(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.stream("", "--max-batches", "1", "--batch", "5")
	assert.Equal(t, p.wait(), command.CodeWorkLeft, p.stderr.String())
	mark := r.count("card c, stage_e_full_catalog_cursor m where m.scope = 'full-catalog' and c.id <= m.position and c.content_phash is not null")
	assert.Equal(t, mark, 5)
	last := strconv.Itoa(r.count("card") - 3)
	p = r.stream("", "--start-after", last, "--batch", "2", "--max-batches", "1")
	assert.Equal(t, p.wait(), command.CodeWorkLeft, p.stderr.String())
	assert.Equal(t, r.count("image_evidence where card_id > "+last), r.count("image_evidence")-5, "only cards behind the start")
	assert.Equal(t, r.resume()["status"], dispatch.Complete)
	assert.Equal(t, r.count("stage_e_full_catalog_cursor where position = 0"), 1, "the next stream is a new pass")
	r.assertConverged()
}

func TestOnlyTheNamedSourceIsWorkedOn(t *testing.T) {
	t.Parallel()
	r := setup(t)
	_, err := r.db.Exec(t.Context(), `with s as (insert into source (key, name, identifier, source_type)
		values ('other', 'other', 'other', 'local_file') returning id) update card set source_id = s.id from s where card.id % 2 = 0`)
	assert.NilError(t, err)
	p := r.stream("", "--only", "other")
	assert.Equal(t, p.wait(), 0, p.stderr.String())
	assert.Equal(t, r.count("image_evidence where card_id % 2 = 1"), 0)
	assert.Equal(t, r.count("image_evidence"), r.count("card where id % 2 = 0 and content_phash is not null"))
	assert.Equal(t, r.count("stage_e_full_catalog_cursor where scope = 'source:other'"), 1)
	p = r.stream("", "--only", "nobody")
	assert.Equal(t, p.wait(), command.CodeError)
	assert.Assert(t, strings.Contains(p.lastLine(), `names no source of the catalogue: "nobody"`), p.lastLine())
	r.resume()
	r.assertConverged()
}

func TestSweepTakesUpWhatAStreamLeftAndEndsByProof(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.start("", "stream", "--source", source(t, r, http.StatusNotFound, "/000002.", "/000013."))
	assert.Equal(t, p.wait(), command.CodeWorkLeft, p.stderr.String())
	p = r.start("", "sweep", "--json", "--source", source(t, r, http.StatusNotFound, "/000013."))
	assert.Equal(t, p.wait(), command.CodeWorkLeft, p.stderr.String())
	assert.Equal(t, p.result()["extracted"], 1.0)
	assert.Equal(t, p.result()["fetch_failures"], 1.0, "what cannot be fetched is tried once a sweep")
	p = r.start("", "sweep", "--json", "--source", r.catalog)
	assert.Equal(t, p.wait(), 0, p.stderr.String())
	assert.Equal(t, p.result()["cards"], 1.0)
	assert.Equal(t, r.count("pilot_run_ledger where counters ->> 'trigger_reason' = 'sweep-stage_c'"), 2)
	r.assertConverged()
}

func TestSweepDecidesWhatHasEvidence(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.resume()
	_, err := r.db.Exec(t.Context(), "with v as (delete from card_printing_tag) delete from card_scan_log")
	assert.NilError(t, err)
	p := r.start("", "sweep", "--json", "--source", r.catalog)
	assert.Equal(t, p.wait(), 0, p.stderr.String())
	assert.Equal(t, p.result()["extracted"], 0.0)
	r.assertConverged()
}

func TestShakedownComputesOldEvidenceAnewAndOnlyOnce(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.resume()
	now := time.Now().UTC().Format(time.RFC3339Nano)
	_, err := r.db.Exec(t.Context(), "update image_evidence set updated_at = updated_at - interval '1 day', width = 1 where id <= 3")
	assert.NilError(t, err)
	yesterday := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	p := r.start("", "shakedown", "--json", "--source", r.catalog, "--before", yesterday)
	assert.Equal(t, p.wait(), 0, p.stderr.String())
	assert.Equal(t, p.result()["cards"], 3.0)
	assert.Equal(t, r.count("image_evidence where width = 1"), 0)
	p = r.start("", "shakedown", "--json", "--source", r.catalog, "--before", yesterday)
	assert.Equal(t, p.wait(), 0, p.stderr.String())
	assert.Equal(t, p.result()["cards"], 0.0)
	r.assertConverged()
	assert.Equal(t, r.count("card_printing_tag where created_at > '"+now+"'"), 0, "the same votes are not written again")
}

func TestKillSwitchRefusesEveryDriver(t *testing.T) {
	t.Parallel()
	r := setup(t)
	for name, args := range drivers(r.catalog) {
		if name == "run" {
			continue // a whole pass has a row of its own
		}
		p := r.command("", args...)
		p.cmd.Env = append(p.cmd.Env, "STAGE_E_STREAMING_ENABLED=false")
		p.run()
		assert.Equal(t, p.wait(), command.CodeDisabled, p.stderr.String())
		assert.Equal(t, p.result()["status"], dispatch.Off)
	}
	assert.Equal(t, r.count("pilot_run_ledger"), 0)
}

func TestMemoryBarTripsBeforeABatch(t *testing.T) {
	t.Parallel()
	r := setup(t)
	p := r.stream("", "--rss-max", "1")
	assert.Equal(t, p.wait(), command.CodeHalted, p.stderr.String())
	assert.Equal(t, p.result()["bar"], "rss")
	assert.Equal(t, r.count("pilot_run_ledger"), 0)
	r.assertHaltedUntilResolved(p.result()["trip"].(string))
	r.resume()
	r.assertConverged()
}

func TestMetricsAreServedWhileAStreamRuns(t *testing.T) {
	t.Parallel()
	r := setup(t)
	release := r.held()
	defer release()
	p := r.stream("job-waits", "--metrics", "127.0.0.1:0", "--batch", "5")
	address := p.logged("metrics served")["address"].(string)
	p.logged("waiting")
	response, err := http.Get("http://" + address + "/metrics")
	assert.NilError(t, err)
	body, err := io.ReadAll(response.Body)
	assert.NilError(t, err)
	assert.NilError(t, response.Body.Close())
	assert.Assert(t, strings.Contains(string(body), "conveyor_halted 0"), string(body))
	assert.Assert(t, strings.Contains(string(body), "process_resident_memory_bytes"))
	release()
	assert.Equal(t, p.wait(), 0, p.stderr.String())
	r.assertConverged()
}
