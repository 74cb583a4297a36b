package tap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"gotest.tools/v3/assert"

	"deadwire/harness/event"
)

func isMessage(from event.Side, typ, verb string) func(*Session, event.Message) bool {
	return func(_ *Session, m event.Message) bool {
		return m.From == from && m.Type == typ && m.Verb == verb
	}
}

// table makes a table of the test's own, past the tap.
func (b *bench) table(name string) *pgx.Conn {
	b.t.Helper()
	conn := b.direct()
	_, err := conn.Exec(b.ctx, "drop table if exists "+name+"; create table "+name+" (n int)")
	assert.NilError(b.t, err)
	return conn
}

func rows(t *testing.T, ctx context.Context, conn *pgx.Conn, table string) int {
	t.Helper()
	var n int
	assert.NilError(t, conn.QueryRow(ctx, "select count(*) from "+table).Scan(&n))
	return n
}

// A commit that was cut away is ambiguous for the subject on both sides of the
// server; only the table tells them apart.
func TestCutAtCommit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		table string
		rule  Rule
		rows  int
		drops string
	}{
		"before it leaves":  {"cut_before", Rule{Match: isMessage(event.Frontend, "Query", "COMMIT"), Do: CutRST}, 0, "Query"},
		"before its answer": {"cut_answer", Rule{Match: isMessage(event.Backend, "CommandComplete", "COMMIT"), Do: CutFIN}, 1, "CommandComplete"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			watch := b.table(tc.table)
			conn := b.connect()
			s := b.session()
			tc.rule.Cause = "f1"
			remove := b.tap.AddRule(tc.rule)
			defer remove()
			tx, err := conn.Begin(b.ctx)
			assert.NilError(t, err)
			_, err = tx.Exec(b.ctx, "insert into "+tc.table+" values (1)")
			assert.NilError(t, err)
			assert.Assert(t, tx.Commit(b.ctx) != nil)
			closings := manners(b.end(s))
			want := string(tc.rule.Do.(Cut))
			assert.DeepEqual(t, closings, []string{"frontend " + want + " in committing f1", "backend " + want + " in committing f1"})
			messages := b.messages(s.ID())
			last := messages[len(messages)-1]
			assert.Assert(t, last.Dropped && last.Type == tc.drops, "%+v", last)
			b.backendGone(s.BackendPID())
			assert.Equal(t, rows(t, b.ctx, watch, tc.table), tc.rows)
		})
	}
}

func TestCutAfterCommitLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	watch := b.table("cut_after")
	conn := b.connect()
	s := b.session()
	b.tap.AddRule(Rule{Cause: "f1", After: true, Match: isMessage(event.Frontend, "Query", "COMMIT"), Do: CutFIN})
	_, err := conn.Exec(b.ctx, "begin; insert into cut_after values (1)")
	assert.NilError(t, err)
	_, err = conn.Exec(b.ctx, "commit", pgx.QueryExecModeSimpleProtocol)
	assert.Assert(t, err != nil)
	assert.Equal(t, manners(b.end(s))[0], "frontend fin in committing f1")
	b.backendGone(s.BackendPID())
	assert.Equal(t, rows(t, b.ctx, watch, "cut_after"), 1)
}

func TestSkipAndOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn := b.connect()
	var fired atomic.Int32
	b.tap.AddRule(Rule{
		Match: isMessage(event.Frontend, "Query", "SELECT"), Skip: 2,
		Do:    InjectError{SQLState: "40001", Text: "injected"},
		Fired: func(*Session, event.Message) { fired.Add(1) },
	})
	var states []string
	for range 5 {
		_, err := conn.Exec(b.ctx, "select 1", pgx.QueryExecModeSimpleProtocol)
		states = append(states, sqlstate(err))
	}
	assert.DeepEqual(t, states, []string{"", "", "40001", "", ""})
	assert.Equal(t, fired.Load(), int32(1))
}

func sqlstate(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestInjectErrorLeavesTheSessionUsable(t *testing.T) {
	t.Parallel()
	for name, match := range map[string]func(*Session, event.Message) bool{
		"at Parse":           isMessage(event.Frontend, "Parse", "SELECT"),
		"at Bind":            isMessage(event.Frontend, "Bind", "SELECT"),
		"at Execute":         isMessage(event.Frontend, "Execute", "SELECT"),
		"at the answer":      isMessage(event.Backend, "CommandComplete", "SELECT"),
		"at BindComplete":    isMessage(event.Backend, "BindComplete", ""),
		"at the second Sync": func(_ *Session, m event.Message) bool { return m.Type == "Sync" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			conn := b.connect()
			b.tap.AddRule(Rule{Match: match, Do: InjectError{SQLState: "53200", Text: "out of memory"}})
			var n int
			err := conn.QueryRow(b.ctx, "select $1::int", 7).Scan(&n)
			assert.Equal(t, sqlstate(err), "53200")
			for range 3 {
				assert.NilError(t, conn.QueryRow(b.ctx, "select $1::int", 7).Scan(&n))
				assert.Equal(t, n, 7)
			}
		})
	}
}

func TestInjectFatal(t *testing.T) {
	t.Parallel()
	for name, match := range map[string]func(*Session, event.Message) bool{
		"at a message of the frontend": isMessage(event.Frontend, "Query", "SELECT"),
		"at a message of the backend":  isMessage(event.Backend, "CommandComplete", "SELECT"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			conn := b.connect()
			s := b.session()
			b.tap.AddRule(Rule{
				Cause: "f2", Match: match,
				Do: InjectError{SQLState: "57P01", Text: "going away", Severity: "FATAL"},
			})
			_, err := conn.Exec(b.ctx, "select 1", pgx.QueryExecModeSimpleProtocol)
			assert.Equal(t, sqlstate(err), "57P01")
			assert.DeepEqual(t, manners(b.end(s)), []string{
				"backend fatal in in query 57P01 f2", "frontend fin in in query f2", "backend fin in in query f2",
			})
		})
	}
}

func TestInjectAtStartup(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tap.AddRule(Rule{
		Always: true, Match: isMessage(event.Frontend, "StartupMessage", ""),
		Do: InjectError{SQLState: "57P03", Text: "the database system is starting up", Severity: "FATAL"},
	})
	for range 2 {
		_, err := pgx.Connect(b.ctx, b.server.url(b.tap.Addr().String()))
		assert.Equal(t, sqlstate(err), "57P03")
	}
}

func TestStallUntilReleased(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(s *Session, remove func()) error{
		"by the session":    func(s *Session, _ func()) error { return s.Release() },
		"by the rule's end": func(_ *Session, remove func()) error { remove(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			conn := b.connect()
			s := b.session()
			held := make(chan struct{})
			remove := b.tap.AddRule(Rule{
				Match: isMessage(event.Frontend, "Query", "COMMIT"), Do: Stall{},
				Fired: func(*Session, event.Message) { close(held) },
			})
			_, err := conn.Exec(b.ctx, "begin")
			assert.NilError(t, err)
			done := make(chan error, 1)
			go func() {
				_, err := conn.Exec(b.ctx, "commit", pgx.QueryExecModeSimpleProtocol)
				done <- err
			}()
			<-held
			assert.Equal(t, s.State(), event.Committing)
			b.serverSees(s.BackendPID(), "idle in transaction")
			assert.NilError(t, release(s, remove))
			assert.NilError(t, <-done)
			assert.Equal(t, s.State(), event.Idle)
		})
	}
}

func (b *bench) serverSees(pid int, state string) {
	b.t.Helper()
	var got string
	assert.NilError(b.t, b.direct().QueryRow(b.ctx, "select state from pg_stat_activity where pid = $1", pid).Scan(&got))
	assert.Equal(b.t, got, state)
}

func TestCloseEndsAStalledSession(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn := b.connect()
	held := make(chan struct{})
	b.tap.AddRule(Rule{
		Match: isMessage(event.Backend, "CommandComplete", "SELECT"), Do: Stall{},
		Fired: func(*Session, event.Message) { close(held) },
	})
	done := make(chan error, 1)
	go func() {
		_, err := conn.Exec(b.ctx, "select 1", pgx.QueryExecModeSimpleProtocol)
		done <- err
	}()
	<-held
	assert.NilError(t, b.tap.Close(b.ctx))
	assert.Assert(t, <-done != nil)
}

func TestDropJustOneMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn := b.connect()
	s := b.session()
	b.tap.AddRule(Rule{Match: isMessage(event.Backend, "ReadyForQuery", ""), Do: Drop{}})
	short, cancel := context.WithTimeout(b.ctx, 2*time.Second)
	defer cancel()
	_, err := conn.Exec(short, "select 1", pgx.QueryExecModeSimpleProtocol)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, manners(b.end(s))[0], "frontend terminate in in query")
}

func TestBlackhole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn := b.connect()
	s := b.session()
	assert.NilError(t, s.Cut(CutBlackhole, "f3"))
	front := conn.PgConn().Frontend()
	front.SendQuery(&pgproto3.Query{String: "select 1"})
	assert.NilError(t, front.Flush())
	raw := conn.PgConn().Conn()
	assert.NilError(t, raw.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err := front.Receive()
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
	assert.NilError(t, raw.Close())
	b.await("the client's FIN", func(e event.Event) bool {
		return e.Closing != nil && e.Closing.Manner == event.FIN
	})
	b.serverSees(s.BackendPID(), "idle") // the server was told nothing
	assert.NilError(t, s.Release())
	assert.DeepEqual(t, manners(b.end(s)), []string{
		"frontend silence in idle f3", "backend silence in idle f3", "frontend fin in in query",
		"frontend rst in in query", "backend rst in in query",
	})
	b.backendGone(s.BackendPID())
}

func TestHalfCloses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn := b.connect()
	s := b.session()
	assert.NilError(t, s.Cut(CutFrontendFIN, "f4"))
	_, err := conn.Exec(b.ctx, "select 1")
	assert.Assert(t, err != nil)
	assert.Equal(t, manners(b.end(s))[0], "frontend fin in idle f4")
	b.backendGone(s.BackendPID())
}

func TestCutOfAnEndedSession(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn := b.connect()
	s := b.session()
	assert.ErrorContains(t, s.Cut("sideways", ""), "no cut is named")
	assert.NilError(t, conn.Close(b.ctx))
	b.end(s)
	assert.ErrorIs(t, s.Cut(CutRST, "f1"), ErrEnded)
}

// A message too long to be held is judged by its beginning, and then dropped to its
// last byte: what follows is answered as if it had never been sent.
func TestDropOfALongMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	watch := b.table("long_message")
	conn := b.connect()
	s := b.session()
	b.tap.AddRule(Rule{Match: isMessage(event.Frontend, "Query", "INSERT"), Do: Drop{}})
	front := conn.PgConn().Frontend()
	front.SendQuery(&pgproto3.Query{String: "insert into long_message values (length('" + strings.Repeat("x", 5<<20) + "'))"})
	front.SendQuery(&pgproto3.Query{String: "select 'second'"})
	assert.NilError(t, front.Flush())
	var types []string
	for len(types) < 4 {
		msg, err := front.Receive()
		assert.NilError(t, err)
		types = append(types, strings.TrimPrefix(fmt.Sprintf("%T", msg), "*pgproto3."))
	}
	assert.DeepEqual(t, types, []string{"RowDescription", "DataRow", "CommandComplete", "ReadyForQuery"})
	assert.NilError(t, s.Cut(CutFIN, ""))
	b.end(s)
	assert.Equal(t, rows(t, b.ctx, watch, "long_message"), 0)
}
