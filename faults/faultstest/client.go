package faultstest

import (
	"context"
	"os"
	"regexp"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/procfs"
	"gotest.tools/v3/assert"

	"deadwire/faults"
	"deadwire/harness/event"
	"deadwire/harness/pg"
	"deadwire/harness/subject"
	"deadwire/harness/wait"
)

// RoleVariable makes a test binary a subject: its value is the role it plays.
const RoleVariable = "FAULTSTEST_ROLE"

// Dial opens a session through the lane as a client does, within limit.
func (s *Stage) Dial(limit time.Duration) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(s.Ctx, limit)
	defer cancel()
	cfg, err := pgx.ParseConfig(s.Lane.URL())
	if err != nil {
		return nil, err
	}
	cfg.RuntimeParams["application_name"] = "play/client"
	return pgx.ConnectConfig(ctx, cfg)
}

// Connect is Dial that must succeed. The session is closed with the test.
func (s *Stage) Connect() *pgx.Conn {
	s.T.Helper()
	conn, err := s.Dial(Patience)
	assert.NilError(s.T, err)
	s.T.Cleanup(func() { s.Close(conn) })
	return conn
}

// Close closes a session without regard to its state.
func (s *Stage) Close(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // it may have been broken on purpose
}

// Session prepares a play's one session, for Before.
func (s *Stage) Session() { s.Kept = s.Connect() }

// Client returns the session that Before kept.
func (s *Stage) Client() *pgx.Conn { return s.Kept.(*pgx.Conn) }

// Query asks for one text within a deadline.
func (s *Stage) Query(conn *pgx.Conn, limit time.Duration, sql string) (text string, err error) {
	ctx, cancel := context.WithTimeout(s.Ctx, limit)
	defer cancel()
	err = conn.QueryRow(ctx, sql, pgx.QueryExecModeSimpleProtocol).Scan(&text)
	return text, err
}

// Works checks that a new session can read and write.
func (s *Stage) Works() {
	s.T.Helper()
	conn, err := s.Dial(Patience)
	assert.NilError(s.T, err)
	defer s.Close(conn)
	_, err = conn.Exec(s.Ctx, "create table works (n int); insert into works values (7); drop table works")
	assert.NilError(s.T, err)
}

// Backends returns how many server processes serve the play's database, deadwire's own
// left out, as the server counts them.
func (s *Stage) Backends() int {
	s.T.Helper()
	// Not in the play's own database, whose settings a fault may have changed.
	admin, err := pg.Admin(s.Ctx, s.Target.Server)
	assert.NilError(s.T, err)
	defer s.Close(admin)
	var n int
	const count = `select count(*) from pg_stat_activity where datname = $1 and application_name <> 'deadwire/admin'`
	assert.NilError(s.T, admin.QueryRow(s.Ctx, count, s.Target.Database).Scan(&n))
	return n
}

// AwaitBackends waits until the server counts so many.
func (s *Stage) AwaitBackends(want int) {
	s.T.Helper()
	s.Until("the number of backends", func() bool { return s.Backends() == want })
}

// Until waits until a fact holds.
func (s *Stage) Until(what string, holds func() bool) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.Ctx, Patience)
	defer cancel()
	assert.NilError(s.T, wait.For(ctx, what, func(context.Context) wait.Answer {
		if holds() {
			return wait.Done()
		}
		return wait.NotYet("it does not hold")
	}))
}

// Start runs the test binary as a subject on the lane.
func (s *Stage) Start(role string) {
	s.T.Helper()
	self, err := os.Executable()
	assert.NilError(s.T, err)
	env := append(s.Lane.Env(), RoleVariable+"="+role)
	if seam := s.seam.Encode(); seam != "" {
		env = append(env, faults.SeamEnv+"="+seam)
	}
	s.Subject, err = s.Lane.Start(s.Ctx, subject.Command{Path: self, Env: env})
	assert.NilError(s.T, err)
	s.running.Store(s.Subject)
}

// Stop asks the subject's processes to end, and sees to it that they do.
func (s *Stage) Stop() {
	if s.Subject == nil {
		return
	}
	for _, pid := range s.Subject.PIDs() {
		_ = s.Subject.SignalPID(pid, syscall.SIGTERM) // gone is just as well
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Ctx), 2*time.Second)
	defer cancel()
	_, _ = s.Subject.Wait(ctx)
	assert.Check(s.T, s.Subject.Close(context.WithoutCancel(s.Ctx)))
	s.Subject = nil
	s.running.Store(nil)
}

// Again runs the subject once more, after a heal.
func (s *Stage) Again(role string) {
	s.T.Helper()
	s.Stop()
	s.Start(role)
}

// Exit waits for the end of the subject's first process, as the kernel tells it.
func (s *Stage) Exit() subject.Exit {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.Ctx, Patience)
	defer cancel()
	exit, err := s.Subject.Wait(ctx)
	assert.NilError(s.T, err)
	return exit
}

// Says waits for the newest subject's line that matches, and returns its first group.
func (s *Stage) Says(pattern string) string {
	s.T.Helper()
	since := s.started()
	compiled := regexp.MustCompile(pattern)
	e := s.Await("output "+pattern, func(e event.Event) bool {
		return e.Kind == event.SubjectOutput && e.Seq > since && compiled.MatchString(e.Output.Text)
	})
	found := compiled.FindStringSubmatch(e.Output.Text)
	return found[len(found)-1]
}

// started is the position of the newest subject's start.
func (s *Stage) started() (seq int64) {
	for _, e := range s.Lane.Journal.Events() {
		if e.Kind == event.ProcessStarted && e.PID == s.Subject.PID() {
			seq = e.Seq
		}
	}
	return seq
}

// State returns the kernel's letter for what a process does; "" when it is gone.
func State(pid int) string {
	stat, ok := statOf(pid)
	if !ok {
		return ""
	}
	return stat.State
}

// CPUTime returns the processor time that a process has used, in seconds.
func CPUTime(pid int) float64 {
	stat, _ := statOf(pid)
	return stat.CPUTime()
}

func statOf(pid int) (procfs.ProcStat, bool) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, false
	}
	stat, err := p.Stat()
	return stat, err == nil
}
