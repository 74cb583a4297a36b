package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"deadwire/pipeline/schema/schematest"
)

const cards = 24

// rig is a migrated database with an imported catalogue, and its ground truth.
type rig struct {
	t       *testing.T
	url     string
	catalog string
	hold    string
	db      *pgx.Conn
}

func setup(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, url: schematest.Database(t), catalog: os.Getenv(catalogEnv), hold: filepath.Join(t.TempDir(), "hold")}
	var err error
	r.db, err = pgx.Connect(t.Context(), r.url)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = r.db.Close(context.Background()) })
	r.ok("catalog", "import", r.catalog)
	return r
}

// process is one running conveyor.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr lockedBuffer
	ended  chan struct{}
}

// start runs conveyor as a process of its own, under a seam.
func (r *rig) start(seam string, args ...string) *process {
	r.t.Helper()
	p := r.command(seam, args...)
	p.run()
	return p
}

func (r *rig) command(seam string, args ...string) *process {
	p := &process{t: r.t, cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), conveyorEnv+"=1", seamEnv+"="+seam, holdEnv+"="+r.hold, "DATABASE_URL="+r.url)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	return p
}

func (p *process) run() {
	p.t.Helper()
	assert.NilError(p.t, p.cmd.Start())
	p.reap()
}

// reap waits for the started process, and ends it with the test.
func (p *process) reap() {
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the exit code is looked at by wait
	}()
	p.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
}

func (r *rig) stream(seam string, more ...string) *process {
	r.t.Helper()
	return r.start(seam, append([]string{"stream", "--source", r.catalog, "--json"}, more...)...)
}

// wait returns the exit code; -1 for a signal. It bounds every run.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(2 * time.Minute):
		p.t.Fatalf("conveyor hangs; stderr:\n%s", p.stderr.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (r *rig) ok(args ...string) string {
	r.t.Helper()
	p := r.start("", args...)
	assert.Equal(r.t, p.wait(), 0, "%v: %s", args, p.stderr.String())
	return p.stdout.String()
}

// lastLine is what conveyor said about its end.
func (p *process) lastLine() string {
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	return lines[len(lines)-1]
}

// result decodes the JSON object on stdout.
func (p *process) result() map[string]any {
	p.t.Helper()
	var value map[string]any
	assert.NilError(p.t, json.Unmarshal(p.stdout.Bytes(), &value), p.stdout.String())
	return value
}

// logged waits for a log line with the message and returns its fields.
func (p *process) logged(message string) map[string]any {
	p.t.Helper()
	var found map[string]any
	poll.WaitOn(p.t, func(poll.LogT) poll.Result {
		for line := range strings.Lines(p.stderr.String()) {
			var fields map[string]any
			if json.Unmarshal([]byte(line), &fields) == nil && fields["msg"] == message {
				found = fields
				return poll.Success()
			}
		}
		return poll.Continue("no %q yet", message)
	}, poll.WithTimeout(20*time.Second), poll.WithDelay(5*time.Millisecond))
	return found
}

// until waits for what a process does.
func (p *process) until(done func() bool) {
	p.t.Helper()
	poll.WaitOn(p.t, func(poll.LogT) poll.Result {
		if done() {
			return poll.Success()
		}
		return poll.Continue("not yet; stderr:\n%s", p.stderr.String())
	}, poll.WithTimeout(time.Minute))
}

// workers are the process ids that said they were ready, by worker number.
func (p *process) workers() map[int]int {
	pids := map[int]int{}
	for line := range strings.Lines(p.stderr.String()) {
		var fields struct {
			Msg         string
			Worker, PID int
		}
		if json.Unmarshal([]byte(line), &fields) == nil && fields.Msg == "worker ready" {
			pids[fields.Worker] = fields.PID
		}
	}
	return pids
}

// held makes jobs wait until release.
func (r *rig) held() (release func()) {
	r.t.Helper()
	assert.NilError(r.t, os.WriteFile(r.hold, nil, 0o600))
	return func() { _ = os.Remove(r.hold) } // a second release finds nothing
}

func (r *rig) count(sql string, args ...any) int {
	r.t.Helper()
	var n int
	assert.NilError(r.t, r.db.QueryRow(r.t.Context(), "select count(*) from "+sql, args...).Scan(&n))
	return n
}

func (r *rig) text(sql string) string {
	r.t.Helper()
	var value string
	assert.NilError(r.t, r.db.QueryRow(r.t.Context(), sql).Scan(&value))
	return value
}

// assertInTime holds the time from a signal to the end against the promised ten seconds,
// and beyond them against what a command that waits for nothing takes on this machine now.
func (r *rig) assertInTime(took time.Duration) {
	r.t.Helper()
	began := time.Now()
	r.ok("status")
	assert.Assert(r.t, took < 10*time.Second+20*time.Since(began), "took %s", took)
}

// assertAtRest checks that nothing is left connected or locked.
func (r *rig) assertAtRest() {
	r.t.Helper()
	schematest.Eventually(r.t, r.url, `select not exists (
		select from pg_stat_activity where application_name like 'conveyor/%' and datname = current_database())`)
	checked := r.start("", "check", "--at-rest")
	assert.Equal(r.t, checked.wait(), 0, checked.stdout.String())
}

// assertConverged checks the votes against the catalogue's ground truth: each card
// that can be identified was, once, and as what it is.
func (r *rig) assertConverged() {
	r.t.Helper()
	r.assertAtRest()
	raw, err := os.ReadFile(filepath.Join(r.catalog, "truth.json"))
	assert.NilError(r.t, err)
	var truth map[string]string
	assert.NilError(r.t, json.Unmarshal(raw, &truth))
	rows, err := r.db.Query(r.t.Context(), `select c.identifier, p.identifier::text
		from card_printing_tag v join card c on c.id = v.card_id join printing p on p.id = v.printing_id`)
	assert.NilError(r.t, err)
	var card, printing string
	voted := 0
	_, err = pgx.ForEachRow(rows, []any{&card, &printing}, func() error {
		voted++
		assert.Equal(r.t, printing, truth[card], card)
		return nil
	})
	assert.NilError(r.t, err)
	hashed := r.count("card where content_phash is not null")
	assert.Assert(r.t, hashed >= cards-3)
	assert.Equal(r.t, r.count("image_evidence"), hashed)
	assert.Equal(r.t, voted, r.count("card where content_phash is not null and card_type = 'CARD'"))
}

// resume runs a healthy stream to the end.
func (r *rig) resume() map[string]any {
	r.t.Helper()
	p := r.stream("")
	assert.Equal(r.t, p.wait(), 0, p.stderr.String())
	return p.result()
}

func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }

// lockedBuffer is a buffer that one goroutine writes and another reads.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
