package tap

import (
	"context"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"deadwire/harness/event"
)

func TestALongMessageMayBeSplitAnywhere(t *testing.T) {
	t.Parallel()
	stream := append(query(64<<10), 'S', 0, 0, 0, 4, 'X', 0, 0, 0, 4)
	want := decode(frontendDecoder(), stream)
	assert.Equal(t, len(want), 3)
	for at := 1; at < len(stream); at++ {
		d := frontendDecoder()
		got := append(decode(d, stream[:at]), decode(d, stream[at:])...)
		if len(got) != len(want) { // compared in full only where it costs nothing
			t.Fatalf("split at %d: %d frames, not %d", at, len(got), len(want))
		}
		assert.Equal(t, got[1], want[1], "split at %d", at)
		assert.Equal(t, got[2], want[2], "split at %d", at)
	}
	assert.DeepEqual(t, decode(frontendDecoder(), stream, 1), want)
	s := offline(nowhere{})
	assert.Assert(t, string(push(&s.up, stream, 1)) == string(stream))
}

// A client that does not read stops the server, not the tap's memory.
func TestAClientThatDoesNotReadStopsTheServer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	mine, err := b.connect().PgConn().Hijack()
	assert.NilError(t, err)
	t.Cleanup(func() { _ = mine.Conn.Close() }) // the server has closed it
	const rows = 200
	_, err = mine.Conn.Write(append(queryOf("select repeat('x', 1000000) from generate_series(1, 200)"), 'X', 0, 0, 0, 4))
	assert.NilError(t, err)
	pid := b.session().BackendPID()
	admin := b.direct()
	poll.WaitOn(t, func(poll.LogT) poll.Result {
		var waits string
		err := admin.QueryRow(b.ctx, "select coalesce(wait_event, '') from pg_stat_activity where pid = $1", pid).Scan(&waits)
		switch {
		case err != nil:
			return poll.Error(err)
		case waits != "ClientWrite":
			return poll.Continue("the server waits for %q", waits)
		}
		return poll.Success()
	}, poll.WithTimeout(30*time.Second))
	s := b.session()
	s.mu.Lock()
	held, delivered := s.down.widest.Load(), s.totals.BytesToClient
	s.mu.Unlock()
	assert.Assert(t, held <= 2*readSize, "the tap holds %d bytes", held)
	assert.Assert(t, delivered < rows*1_000_000, "%d bytes went to a client that reads none", delivered)
	assert.Equal(t, rowBytes(mine.Frontend), rows*1_000_000)
}

// rowBytes reads to the end of a session and counts the bytes of values. It asks pgx,
// not the socket: where writing was slow, pgx has begun to read in the background.
func rowBytes(from *pgproto3.Frontend) (count int) {
	for {
		msg, err := from.Receive()
		if err != nil {
			return count
		}
		if row, ok := msg.(*pgproto3.DataRow); ok {
			for _, value := range row.Values {
				count += len(value)
			}
		}
	}
}

// queryOf is a Query message of that text.
func queryOf(sql string) []byte {
	b := query(len(sql))
	copy(b[5:], sql)
	return b
}

func TestSlowClientsAreInNobodysWay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const slow = 100
	for i := range slow {
		c, err := net.Dial("tcp", b.tap.Addr().String())
		assert.NilError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = io.WriteString(c, "\x00\x00\x00\x40\x00\x03\x00\x00user\x00"[:1+i%12])
		assert.NilError(t, err)
	}
	assert.NilError(t, b.work(1))
	b.await("end of the quick one", func(e event.Event) bool { return e.Kind == event.SessionEnded })
	assert.NilError(t, b.tap.Close(context.WithoutCancel(b.ctx)))
	var ends int
	for _, e := range b.journal.Events() {
		if e.Kind == event.SessionEnded {
			ends++
		}
		assert.Assert(t, e.Kind != event.SessionClosing || e.Closing.Manner != event.Desync)
	}
	assert.Equal(t, ends, slow+1)
}

func TestWantOfDescriptorsDoesNotEndAccepting(t *testing.T) {
	t.Parallel()
	full := &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	assert.Assert(t, crowded(full) && !passes(full))
	b := newBench(t)
	told := false
	for range 3 {
		b.tap.pause(&told, full)
	}
	assert.Assert(t, told)
	var notes []string
	for _, e := range b.journal.Events() {
		if e.Kind == event.WitnessFailed {
			notes = append(notes, e.Step.Note)
		}
	}
	assert.Equal(t, len(notes), 1, "%v", notes)
	assert.NilError(t, b.work(1))
}
