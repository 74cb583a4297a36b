package harnesstest

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"deadwire/harness"
	"deadwire/harness/diagnose"
	"deadwire/harness/report"
	"deadwire/harness/subject"
	"deadwire/harness/witness"
)

// settleMax is how long sessions may take to end once the test is over.
var settleMax = 30 * time.Second

// TB is what is needed of a testing.TB.
type TB interface {
	Helper()
	Name() string
	Context() context.Context
	Cleanup(func())
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Options say what a test's database is like. The zero value is an empty database.
type Options struct {
	// Migrate fills a database at a URL. It runs once for each Key, into a template of
	// which the tests get clones.
	Migrate func(ctx context.Context, url string) error
	// Key tells templates apart; it must change with what Migrate does.
	Key string
	// Toxiproxy puts it and a second tap between the first tap and the server, so that
	// Database.Lane can break the network.
	Toxiproxy bool
}

// Database is a test's own database, with the tap before it.
type Database struct {
	tb       TB
	lane     *harness.Lane
	database *harness.Database
	programs []*Program
	expected []expectation
}

type expectation struct {
	rule, role string
	met        bool
}

// serial numbers the lanes of this process.
var serial atomic.Int64

// New returns a database that lives until the test's end. Then every session must have
// ended, each in the ordinary way or as Expect said; anything else fails the test, with
// who ended the session, how that is known, and what to change. A second value of
// Options is an error.
func New(tb TB, options ...Options) *Database {
	tb.Helper()
	if len(options) > 1 {
		tb.Fatalf("harnesstest.New: one Options, not %d", len(options))
	}
	o := Options{Key: "empty"}
	if len(options) == 1 {
		o = options[0]
	}
	d, err := open(tb, o)
	if err != nil {
		tb.Fatalf("harnesstest: %v", err)
	}
	return d
}

func open(tb TB, o Options) (*Database, error) {
	rig, err := acquire(tb.Context())
	if err != nil {
		return nil, err
	}
	d := &Database{tb: tb}
	tb.Cleanup(d.close)
	if o.Migrate == nil {
		o.Migrate = func(context.Context, string) error { return nil }
	}
	if d.database, err = rig.NewDatabase(tb.Context(), harness.DatabaseConfig{Key: o.Key, Build: o.Migrate}); err != nil {
		return nil, err
	}
	d.lane, err = rig.NewLane(tb.Context(), harness.LaneConfig{
		Name: fmt.Sprintf("test-%d", serial.Add(1)), Database: d.database, Watch: !o.Toxiproxy,
		Witness: witness.Options{Sends: witness.Senders},
	})
	return d, err
}

// URL returns the address of the database by way of the tap, with its password.
func (d *Database) URL() string { return d.lane.URL() }

// Env returns the environment, NAME=VALUE, that leads a program to the tap: our own,
// with DATABASE_URL and the PG variables.
func (d *Database) Env() []string { return d.lane.Env() }

// Lane returns the data path, for those who want to look closer or to break something.
func (d *Database) Lane() *harness.Lane { return d.lane }

// Expect says that sessions of that role ("" for any, wildcards allowed) will end by
// that rule, or have a finding of it. It fails the test if none does. Rules are listed
// by `deadwire explain`; a role is the last part of an application_name.
func (d *Database) Expect(rule, role string) {
	d.tb.Helper()
	if _, known := diagnose.Lookup(rule); !known {
		d.tb.Fatalf("harnesstest: Expect: unknown rule %q", rule)
	}
	if _, err := path.Match(role, ""); err != nil {
		d.tb.Fatalf("harnesstest: Expect: role %q: %v", role, err)
	}
	d.expected = append(d.expected, expectation{rule: rule, role: role})
}

// Report explains the sessions so far. Those that live have no ending yet.
func (d *Database) Report() diagnose.Report { return diagnose.Explain(d.lane.Journal.Events()) }

// close is the end of the test: what is still there ends, and is judged.
func (d *Database) close() {
	ctx := context.WithoutCancel(d.tb.Context())
	for _, p := range d.programs {
		p.close(ctx)
	}
	if d.lane != nil {
		d.settle(ctx)
		d.judge(d.Report())
		d.check(d.lane.Close(ctx))
	}
	if d.database != nil {
		d.check(d.database.Close(ctx))
	}
	d.check(release(ctx))
}

func (d *Database) check(err error) {
	if err != nil {
		d.tb.Errorf("harnesstest: %v", err)
	}
}

// settle waits for the sessions to end.
func (d *Database) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleMax)
	defer cancel()
	if d.lane.Settle(ctx) == nil {
		return
	}
	for _, s := range d.lane.Front.Sessions() {
		d.tb.Errorf("session %d (%s) was left open: nobody closed it, %s", s.ID().N, path.Base(s.ApplicationName()), s.State())
	}
}

// judge fails the test for what was not expected.
func (d *Database) judge(r diagnose.Report) {
	roles := map[int]string{}
	for _, e := range r.Endings {
		roles[e.Session] = e.Role
		if !d.meets(e.Rule, e.Role) && !e.Expected {
			d.tb.Errorf("%s", explain(e))
		}
	}
	for _, f := range r.Findings {
		if !d.meets(f.Rule, roles[f.Session]) {
			d.tb.Errorf("%s: %s\nmend: %s", report.Broken(f), f.Message, f.Mend)
		}
	}
	for _, e := range d.expected {
		if !e.met {
			d.tb.Errorf("no session of %q had %s, which was expected", e.role, e.rule)
		}
	}
}

func (d *Database) meets(rule, role string) bool {
	met := false
	for n, e := range d.expected {
		if e.rule != rule {
			continue
		}
		if fits, err := path.Match(e.role, role); e.role == "" || (err == nil && fits) {
			d.expected[n].met, met = true, true
		}
	}
	return met
}

func explain(e diagnose.Ending) string {
	lines := []string{report.Title(e), report.Who(e), report.How(e)}
	if e.Mend != "" {
		lines = append(lines, "mend: "+e.Mend)
	}
	return strings.Join(lines, "\n")
}

// Program is a program that the test started, with all its processes.
type Program struct {
	tb       TB
	instance *subject.Instance
}

// Start runs a program, found on PATH when it has no slash, whose environment leads
// to the tap. It ends with the test at the latest. It needs Main.
func (d *Database) Start(program string, args ...string) *Program {
	d.tb.Helper()
	shared.Lock()
	ready := shared.ready
	shared.Unlock()
	if !ready {
		d.tb.Fatalf("harnesstest: Start needs `func TestMain(m *testing.M) { os.Exit(harnesstest.Main(m)) }` in the package's tests")
	}
	instance, err := d.lane.Start(d.tb.Context(), subject.Command{Path: program, Args: args, Env: d.Env()})
	if err != nil {
		d.tb.Fatalf("harnesstest: %v", err)
	}
	p := &Program{tb: d.tb, instance: instance}
	d.programs = append(d.programs, p)
	return p
}

// Wait returns how the program's first process ended. If the test's context ends
// before, the test fails.
func (p *Program) Wait() subject.Exit {
	p.tb.Helper()
	exit, err := p.instance.Wait(p.tb.Context())
	if err != nil {
		p.tb.Fatalf("harnesstest: wait for the program: %v", err)
	}
	return exit
}

// Instance returns the running program, to signal it or to look at its processes.
func (p *Program) Instance() *subject.Instance { return p.instance }

// Output returns the last lines that the program printed, both streams together.
func (p *Program) Output() string {
	var lines []string
	for _, line := range p.instance.Tail() {
		lines = append(lines, line.Text)
	}
	return strings.Join(lines, "\n")
}

// close ends the program with all its processes.
func (p *Program) close(ctx context.Context) {
	if err := p.instance.Close(ctx); err != nil {
		p.tb.Errorf("harnesstest: end the program: %v", err)
	}
}
