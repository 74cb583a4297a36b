package tap

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"gotest.tools/v3/assert"

	"deadwire/harness/event"
	"deadwire/harness/wait"
)

func full(c *Config) { c.Full = true }

// of returns the messages of a side and type, in order.
func of(all []event.Message, from event.Side, typ string) []event.Message {
	return slices.DeleteFunc(slices.Clone(all), func(m event.Message) bool { return m.From != from || m.Type != typ })
}

func TestSessionIsNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn := b.connect()
	s := b.session()
	named := b.await("name", func(e event.Event) bool { return e.Kind == event.SessionNamed })
	assert.Equal(t, named.Session, s.ID())
	assert.DeepEqual(t, *named.Named, event.Named{
		BackendPID: int(conn.PgConn().PID()), User: "postgres", Database: "postgres", ApplicationName: "bench", Protocol: "3.0",
	})
	assert.Equal(t, s.BackendPID(), int(conn.PgConn().PID()))
	assert.Equal(t, s.Database(), "postgres")
	assert.Equal(t, b.tap.Session(s.ID()), s)
	_, err := conn.Exec(b.ctx, "set application_name = 'renamed'")
	assert.NilError(t, err)
	assert.Equal(t, s.ApplicationName(), "renamed")
	assert.Assert(t, s.Idle() < time.Minute)
}

func TestVerbsAndLabels(t *testing.T) {
	t.Parallel()
	b := newBench(t, full)
	conn := b.connect()
	s := b.session()
	for range 2 {
		_, err := conn.Exec(b.ctx, "/* conveyor:partition */ select $1::int", 1)
		assert.NilError(t, err)
	}
	_, err := conn.Exec(b.ctx, "-- remark\n/* not a label: 'secret' */ /* job-1 */ update pg_class set relname = relname where false")
	assert.NilError(t, err)
	all := b.messages(s.ID())
	for _, typ := range []string{"Parse", "Bind", "Execute"} {
		for _, m := range of(all, event.Frontend, typ) {
			assert.Equal(t, m.Label+" "+m.Verb, "conveyor:partition SELECT", typ)
		}
	}
	assert.Equal(t, len(of(all, event.Frontend, "Parse")), 1)
	assert.Equal(t, len(of(all, event.Frontend, "Execute")), 2)
	query := of(all, event.Frontend, "Query")
	assert.Equal(t, query[0].Label+" "+query[0].Verb, "job-1 UPDATE")
	done := of(all, event.Backend, "CommandComplete")
	assert.Equal(t, done[len(done)-1].Verb, "UPDATE")
	assert.Equal(t, s.State(), event.Idle)
}

func TestStatesOfATransaction(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn := b.connect()
	s := b.session()
	for _, step := range []struct {
		sql  string
		want event.State
	}{
		{"select 1", event.Idle},
		{"begin", event.InTransaction},
		{"select 1/0", event.Failed},
		{"commit", event.Idle},
		{"begin; select 1", event.InTransaction},
		{"end", event.Idle},
	} {
		_, _ = conn.Exec(b.ctx, step.sql, pgx.QueryExecModeSimpleProtocol) // one of them fails on purpose
		assert.Equal(t, s.State(), step.want, step.sql)
	}
}

func TestErrorKeepsItsTextToItself(t *testing.T) {
	t.Parallel()
	b := newBench(t, full)
	conn := b.connect()
	_, err := conn.Exec(b.ctx, "select 'secret'::int")
	assert.ErrorContains(t, err, "secret")
	m := of(b.messages(b.session().ID()), event.Backend, "ErrorResponse")[0]
	assert.Equal(t, m.Severity+" "+m.SQLState, "ERROR 22P02")
}

// Nothing that may be a secret gets into the journal.
func TestJournalHoldsNoSecret(t *testing.T) {
	t.Parallel()
	var out syncBuffer
	journal := event.NewJournal(&out, 0)
	b := newBench(t, full, func(c *Config) { c.Recorder = journal })
	conn := b.connect()
	_, err := conn.Exec(b.ctx, "select $1::text as column_k4dR", "value-k4dR")
	assert.NilError(t, err)
	_, err = conn.Exec(b.ctx, "select 'literal-k4dR'")
	assert.NilError(t, err)
	assert.NilError(t, conn.Close(b.ctx))
	assert.NilError(t, b.tap.Close(b.ctx))
	text := out.String()
	assert.Assert(t, strings.Contains(text, "PasswordMessage"))
	assert.Assert(t, !strings.Contains(text, "k4dR"))
}

type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func TestCancelIsPaired(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn := b.connect()
	s := b.session()
	done := make(chan error, 1)
	go func() {
		_, err := conn.Exec(b.ctx, "select pg_sleep(30)")
		done <- err
	}()
	b.reaches(s, event.InQuery)
	assert.NilError(t, conn.PgConn().CancelRequest(b.ctx))
	assert.Equal(t, sqlstate(<-done), "57014")
	e := b.await("cancel", func(e event.Event) bool { return e.Kind == event.SessionCancel })
	assert.Equal(t, e.Session, s.ID())
	assert.Equal(t, e.Named.BackendPID, s.BackendPID())
}

// reaches waits until a session is in a state.
func (b *bench) reaches(s *Session, want event.State) {
	b.t.Helper()
	assert.NilError(b.t, wait.For(b.ctx, "session "+string(want), func(context.Context) wait.Answer {
		if got := s.State(); got != want {
			return wait.NotYet("%s", got)
		}
		return wait.Done()
	}))
}

func TestStrangersCancelHasNoSession(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.dial()
	// protocol 3.2: a key of eight bytes
	_, err := c.Write([]byte{0, 0, 0, 20, 4, 210, 22, 46, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8})
	assert.NilError(t, err)
	e := b.await("cancel", func(e event.Event) bool { return e.Kind == event.SessionCancel })
	assert.Assert(t, e.Session.IsZero())
	assert.Equal(t, e.Named.BackendPID, 9)
}

func TestCopyBothWays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	watch := b.table("copied")
	conn := b.connect()
	s := b.session()
	var lines bytes.Buffer
	for i := range 200_000 {
		fmt.Fprintln(&lines, i)
	}
	held := make(chan struct{})
	remove := b.tap.AddRule(Rule{
		Match: func(_ *Session, m event.Message) bool { return m.Type == "CopyData" && m.From == event.Frontend },
		Skip:  2, Do: Stall{},
		Fired: func(*Session, event.Message) { close(held) },
	})
	done := make(chan error, 1)
	go func() {
		_, err := conn.PgConn().CopyFrom(b.ctx, bytes.NewReader(lines.Bytes()), "copy copied from stdin")
		done <- err
	}()
	<-held
	b.reaches(s, event.InCopy) // pgx does not wait for the server's leave to send data
	remove()
	assert.NilError(t, <-done)
	assert.Equal(t, rows(t, b.ctx, watch, "copied"), 200_000)

	var back bytes.Buffer
	_, err := conn.PgConn().CopyTo(b.ctx, &back, "copy copied to stdout")
	assert.NilError(t, err)
	assert.Equal(t, back.Len(), lines.Len())
	assert.Equal(t, s.State(), event.Idle)
	assert.NilError(t, conn.Close(b.ctx))
	b.end(s)
	all := b.messages(s.ID())
	assert.Assert(t, len(of(all, event.Backend, "CopyData")) == 2) // a run of them: first and last
	assert.Assert(t, len(of(all, event.Backend, "CopyOutResponse")) == 1)
}

func TestTenMegabytesBothWays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conn := b.connect()
	s := b.session()
	big := strings.Repeat("0123456789abcdef", 10<<20/16)
	var back string
	assert.NilError(t, conn.QueryRow(b.ctx, "select $1::text", big).Scan(&back))
	assert.Assert(t, back == big)
	assert.Assert(t, s.up.widest.Load() <= 2*readSize && s.down.widest.Load() <= 2*readSize)
	assert.NilError(t, conn.Close(b.ctx))
	b.end(s)
	total := b.await("end", ended).Ended
	assert.Assert(t, total.BytesToServer > 10<<20 && total.BytesToClient > 10<<20)
}

func TestNotifications(t *testing.T) {
	t.Parallel()
	b := newBench(t, full)
	conn := b.connect()
	_, err := conn.Exec(b.ctx, "listen tap_news")
	assert.NilError(t, err)
	_, err = b.direct().Exec(b.ctx, "select pg_notify('tap_news', 'payload')")
	assert.NilError(t, err)
	n, err := conn.WaitForNotification(b.ctx)
	assert.NilError(t, err)
	assert.Equal(t, n.Payload, "payload")
	assert.Equal(t, len(of(b.messages(b.session().ID()), event.Backend, "NotificationResponse")), 1)
}

func TestPsycopg2NegotiatesDownToPlain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.python("cur.execute('/* py */ select 6*7'); say(cur.fetchone()[0]); hear(); conn.close(); say('bye')")
	p.expect("42")
	s := b.session()
	p.tell("go on")
	p.expect("bye")
	assert.Equal(t, manners(b.end(s))[0], "frontend terminate in idle")
	all := b.messages(s.ID())
	assert.Equal(t, len(of(all, event.Frontend, "SSLRequest")), 1)
	assert.Equal(t, of(all, event.Frontend, "Query")[0].Label, "py")
}

func TestPassthroughWithAServerThatHasNoTLS(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *Config) { c.TLS = TLSPassthrough }, full)
	p := b.python("say('plain'); hear()")
	p.expect("plain")
	assert.Equal(t, b.session().State(), event.Idle)
}

func TestPassthroughRelaysTLS(t *testing.T) {
	t.Parallel()
	server := newTLSServer(t)
	b := newBench(t, func(c *Config) { c.TLS = TLSPassthrough }, full, upstream(server.addr))
	c := b.dial()
	_, err := c.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47})
	assert.NilError(t, err)
	yes := make([]byte, 1)
	_, err = io.ReadFull(c, yes)
	assert.NilError(t, err)
	assert.Equal(t, string(yes), "S")
	client := tls.Client(c, &tls.Config{RootCAs: server.pool, ServerName: "localhost"})
	_, err = client.Write([]byte("hello"))
	assert.NilError(t, err)
	back := make([]byte, 5)
	_, err = io.ReadFull(client, back)
	assert.NilError(t, err)
	assert.Equal(t, string(back), "hello")
	assert.NilError(t, client.Close())
	s := event.SessionID{Place: event.Front, N: 1}
	b.await("end", ended)
	assert.Assert(t, len(of(b.messages(s), event.Frontend, "TLS application_data")) > 0)
	for _, c := range b.closings(s) {
		assert.Assert(t, c.Manner != event.Desync, "%+v", c)
	}
}

// garbage is relayed as it is, and called by its name once.
func TestDesync(t *testing.T) {
	t.Parallel()
	echo := stub(t, func(c *net.TCPConn) {
		_, _ = io.Copy(c, c)
		_ = c.Close()
	})
	for name, bytes := range map[string]string{
		"not a start-up packet":   "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"unknown version":         "\x00\x00\x00\x08\x00\x02\x00\x00",
		"unknown type later":      "\x00\x00\x00\x08\x00\x03\x00\x00\x01\x00\x00\x00\x04",
		"impossible length later": "\x00\x00\x00\x08\x00\x03\x00\x00X\x00\x00\x00\x05!",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, upstream(echo))
			c := b.dial()
			_, err := io.WriteString(c, bytes)
			assert.NilError(t, err)
			assert.NilError(t, c.CloseWrite())
			back, err := io.ReadAll(c)
			assert.NilError(t, err)
			assert.Equal(t, string(back), bytes)
			b.await("end", ended)
			count := map[event.Manner]int{}
			for _, c := range b.closings(event.SessionID{Place: event.Front, N: 1}) {
				count[c.Manner]++
				assert.Assert(t, c.Manner != event.Desync || c.Text != "")
			}
			assert.Assert(t, count[event.Desync] >= 1, "%v", count)
		})
	}
}

func TestManySessionsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const sessions = 200
	var all sync.WaitGroup
	failures := make(chan error, sessions)
	for i := range sessions {
		all.Go(func() { failures <- b.work(i) })
	}
	all.Wait()
	for range sessions {
		assert.NilError(t, <-failures)
	}
	assert.NilError(t, b.tap.Close(b.ctx))
	assert.Equal(t, len(b.tap.Sessions()), 0)
	kinds := map[event.Kind]int{}
	for _, e := range b.journal.Events() {
		kinds[e.Kind]++
	}
	assert.Equal(t, kinds[event.SessionEnded], sessions)
	assert.Equal(t, kinds[event.SessionNamed], sessions)
}

func (b *bench) work(i int) error {
	conn, err := pgx.Connect(b.ctx, b.server.url(b.tap.Addr().String()))
	if err != nil {
		return err
	}
	for j := range 5 {
		var back int
		if err := conn.QueryRow(b.ctx, "select $1::int", i*1000+j).Scan(&back); err != nil || back != i*1000+j {
			return fmt.Errorf("session %d got %d: %w", i, back, err)
		}
	}
	return conn.Close(b.ctx)
}
