package command_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"gotest.tools/v3/assert"

	"deadwire/pipeline/command"
	"deadwire/pipeline/schema/schematest"
)

// migrated is a rig whose database was made by the commands alone, jobs included.
func migrated(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, url: schematest.Empty(t), catalog: os.Getenv(catalogEnv), hold: filepath.Join(t.TempDir(), "hold")}
	r.ok("migrate")
	r.ok("migrate")
	var err error
	r.db, err = pgx.Connect(t.Context(), r.url)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = r.db.Close(t.Context()) })
	return r
}

// elsewhere starts conveyor in a network of its own, as on another host, where that
// is allowed; else beside us. The database's socket file is all that it shares.
func (r *rig) elsewhere(seam string, args ...string) *process {
	r.t.Helper()
	socket := schematest.Socket(r.url)
	if socket != "" {
		p := r.command(seam, args...)
		p.cmd.Env = append(p.cmd.Env, "DATABASE_URL="+socket)
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		err := p.cmd.Start()
		if err == nil {
			p.reap()
			return p
		}
		if !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOSPC) {
			r.t.Fatal(err)
		}
	}
	return r.start(seam, args...)
}

func (r *rig) worker(seam string) *process {
	r.t.Helper()
	return r.elsewhere(seam, "work", "--source", r.catalog, "--batch", "3", "--workers", "1", "--rate", "200", "--slots", "3", "--sweep-every", "1s")
}

func (r *rig) eventually(query string) {
	r.t.Helper()
	schematest.Eventually(r.t, r.url, query)
}

const allVoted = `select not exists (select from card c where c.content_phash is not null
	and not exists (select from image_evidence e where e.card_id = c.id)) and not exists (select from card c
	where c.content_phash is not null and c.card_type = 'CARD' and not exists (select from card_printing_tag v where v.card_id = c.id))`

func TestThreeProcessesShareTheWorkWhileOneIsKilled(t *testing.T) {
	t.Parallel()
	r := migrated(t)
	release := r.held()
	defer release()
	leader := r.worker("job-waits") // the queue's, for whose end the others would wait long
	leader.logged("working")
	r.eventually("select exists (select from river_leader)")
	victim := r.worker("job-waits")
	victim.logged("working")
	r.ok("catalog", "import", r.catalog, "--enqueue")
	assert.Equal(t, r.count("river_job where kind = 'conveyor-cards'"), 2)
	victim.logged("waiting")
	others := []*process{leader, r.worker("")}
	assert.NilError(t, victim.cmd.Process.Kill())
	assert.Equal(t, victim.wait(), -1)
	release() // its worker may end now
	r.eventually(allVoted)
	r.eventually(`select exists (select from pilot_run_ledger where status = 'failed' and failure_reason like 'owner gone: %')
		and not exists (select from pilot_run_ledger where status = 'running')`)
	for _, p := range others {
		assert.NilError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, p := range others {
		assert.Equal(t, p.wait(), 0, p.stderr.String())
		assert.Assert(t, strings.HasPrefix(p.stdout.String(), "stopped: "), p.stdout.String())
	}
	assert.Equal(t, r.count("shared_cache where cache_key like 'harvest-rate-cursor:%'"), 1, "one rate for all")
	assert.Equal(t, r.count("river_job where attempt > 1"), 0, "no job is tried twice")
	r.assertConverged()
}

func TestImportAndItsJobsAreOneTransaction(t *testing.T) {
	t.Parallel()
	r := migrated(t)
	_, err := r.db.Exec(t.Context(), `create function refuse() returns trigger language plpgsql as $$ begin raise 'no jobs today'; end $$;
		create trigger refuse before insert on river_job execute function refuse()`)
	assert.NilError(t, err)
	p := r.start("", "catalog", "import", r.catalog, "--enqueue")
	assert.Equal(t, p.wait(), command.CodeError)
	assert.Assert(t, strings.Contains(p.lastLine(), "no jobs today"), p.lastLine())
	assert.Equal(t, r.count("card"), 0)
	_, err = r.db.Exec(t.Context(), "drop trigger refuse on river_job")
	assert.NilError(t, err)
	r.ok("catalog", "import", r.catalog, "--enqueue")
	jobs := r.count("river_job")
	assert.Equal(t, jobs, 2)
	r.ok("catalog", "import", r.catalog, "--enqueue")
	assert.Equal(t, r.count("river_job"), jobs, "nothing changed, so nothing is asked for")
}

func TestCardsAreFoundByNameAndEnqueued(t *testing.T) {
	t.Parallel()
	r := migrated(t)
	r.ok("catalog", "import", r.catalog)
	first, name := r.text("select identifier from card order by identifier limit 1"), r.text("select name from card order by identifier limit 1")
	assert.Assert(t, strings.Contains(r.ok("cards", strings.ToUpper(name)), first))
	assert.Assert(t, !strings.Contains(r.ok("cards", "--after", first), first))
	assert.Equal(t, r.ok("cards", "--status", "resolved"), "")
	assert.Equal(t, r.ok("enqueue", first), "1 cards in 1 jobs\n")
	assert.Equal(t, r.count("river_job where args ->> 'reason' = 'evidence-change'"), 1)
	p := r.start("", "enqueue", first, "no-such-card")
	assert.Equal(t, p.wait(), command.CodeError)
	assert.Equal(t, p.lastLine(), "conveyor: enqueue: 1 of 2 cards are not in the catalogue (conveyor cards lists them)")
	assert.Equal(t, r.count("river_job"), 1)
}
