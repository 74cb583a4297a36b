package tap

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"gotest.tools/v3/assert"

	"deadwire/harness/event"
)

// seen is a frame in words: type, length, and what was kept of the body.
func seen(d *decoder) string { return fmt.Sprintf("%c %d %q", d.typ, d.length, d.body) }

// decode feeds a stream in pieces of the given sizes (the last one repeats).
func decode(d *decoder, stream []byte, sizes ...int) []string {
	var frames []string
	for i := 0; len(stream) > 0; i++ {
		size := len(stream)
		if len(sizes) > 0 {
			size = min(size, max(1, sizes[min(i, len(sizes)-1)]))
		}
		piece := stream[:size]
		stream = stream[size:]
		for len(piece) > 0 {
			n, done := d.feed(piece)
			if n == 0 {
				return append(frames, "stuck")
			}
			if done {
				frames = append(frames, seen(d))
			}
			piece = piece[n:]
		}
	}
	if d.bad != "" {
		frames = append(frames, d.bad)
	}
	return frames
}

func frontendDecoder() *decoder { return &decoder{side: event.Frontend, framing: messages} }
func backendDecoder() *decoder  { return &decoder{side: event.Backend, framing: messages} }

// transaction is what pgbench -M prepared sends and gets for one select.
func transaction(t testing.TB) (up, down []byte) {
	t.Helper()
	for _, m := range []pgproto3.FrontendMessage{
		&pgproto3.Bind{PreparedStatement: "P_0", Parameters: [][]byte{[]byte("12345")}},
		&pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}, &pgproto3.Sync{},
	} {
		var err error
		up, err = m.Encode(up)
		assert.NilError(t, err)
	}
	for _, m := range []pgproto3.BackendMessage{
		&pgproto3.BindComplete{},
		&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("abalance")}}},
		&pgproto3.DataRow{Values: [][]byte{[]byte("0")}},
		&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")},
		&pgproto3.ReadyForQuery{TxStatus: 'I'},
	} {
		var err error
		down, err = m.Encode(down)
		assert.NilError(t, err)
	}
	return up, down
}

func TestSplitsChangeNothing(t *testing.T) {
	t.Parallel()
	up, down := transaction(t)
	long, err := (&pgproto3.Query{String: "/* a */ select '" + strings.Repeat("x", 5000) + "'"}).Encode(nil)
	assert.NilError(t, err)
	up = append(up, long...)
	for side, stream := range map[string][]byte{"frontend": up, "backend": down} {
		fresh := frontendDecoder
		if side == "backend" {
			fresh = backendDecoder
		}
		want := decode(fresh(), stream)
		assert.Equal(t, len(want), 5)
		for size := 1; size < len(stream) && size < 300; size++ {
			assert.DeepEqual(t, decode(fresh(), stream, size), want)
		}
	}
}

func TestDecoderAllocatesNothing(t *testing.T) {
	up, down := transaction(t)
	for name, tc := range map[string]struct {
		d      *decoder
		stream []byte
		size   int
	}{
		"frontend": {frontendDecoder(), up, 1 << 20}, "backend": {backendDecoder(), down, 1 << 20},
		"split": {frontendDecoder(), up, 7},
	} {
		run := func() {
			for b := tc.stream; len(b) > 0; {
				n, _ := tc.d.feed(b[:min(len(b), tc.size)])
				b = b[n:]
			}
		}
		run()
		assert.Equal(t, testing.AllocsPerRun(100, run), 0.0, name)
	}
}

// nowhere is a recorder that keeps nothing.
type nowhere struct{ event.Recorder }

func (nowhere) Record(event.Event) {}

// offline returns a session without sockets, past start-up.
func offline(recorder event.Recorder) *Session {
	t := &Tap{cfg: Config{Recorder: recorder, RingMessages: DefaultRingMessages}}
	s := &Session{tap: t, ring: newRing(DefaultRingMessages), ended: make(chan struct{}), gone: make(chan struct{})}
	s.up.s, s.up.side, s.up.dec = s, event.Frontend, *frontendDecoder()
	s.down.s, s.down.side, s.down.dec = s, event.Backend, *backendDecoder()
	return s
}

// push runs a stream through a flow and returns what comes out of it.
func push(f *flow, stream []byte, size int) []byte {
	var out []byte
	for len(stream) > 0 {
		n := copy(f.space(), stream[:min(size, len(stream))])
		stream = stream[n:]
		f.added(n, 1)
		for more := true; more; {
			st := f.next()
			out = append(out, st.out...)
			if st.decide {
				f.pass()
			}
			more = st.more
		}
	}
	return append(out, f.remains()...)
}

func TestRecordingAllocatesNothing(t *testing.T) {
	up, down := transaction(t)
	s := offline(nowhere{})
	prepare, err := (&pgproto3.Parse{Name: "P_0", Query: "/* bench */ select $1"}).Encode(nil)
	assert.NilError(t, err)
	push(&s.up, prepare, 1<<20)
	run := func() {
		for _, one := range []struct {
			f *flow
			b []byte
		}{{&s.up, up}, {&s.down, down}} {
			n := copy(one.f.space(), one.b)
			one.f.added(n, 1)
			for one.f.next().more {
			}
		}
	}
	run()
	assert.Equal(t, testing.AllocsPerRun(100, run), 0.0)
	assert.Equal(t, s.progress.state(), event.Idle)
}

func TestStartupPacketsAreHeldWhole(t *testing.T) {
	t.Parallel()
	s := offline(nowhere{})
	s.up.dec.framing = packets
	stream := []byte{0, 0, 0, 8, 0, 3, 0, 2}
	for i := range stream {
		n := copy(s.up.space(), stream[i:i+1])
		s.up.added(n, 1)
		st := s.up.next()
		want := 0
		if i == len(stream)-1 {
			want = len(stream)
		}
		assert.Equal(t, len(st.out), want)
	}
	assert.Equal(t, s.named.Protocol, "3.2")
}

// FuzzSplit: however a stream is cut into reads, the frames are the same.
func FuzzSplit(f *testing.F) {
	up, down := transaction(f)
	f.Add(up, byte(3), byte(1))
	f.Add(down, byte(1), byte(200))
	f.Add([]byte("Q\x00\x00\x00\x09COMM"), byte(2), byte(2))
	f.Add([]byte{'X', 0, 0, 0, 4, 'S', 0, 0, 0, 5}, byte(5), byte(1))
	f.Add([]byte{22, 3, 1, 0, 5, 1, 2, 3, 4, 5}, byte(4), byte(1))
	f.Fuzz(func(t *testing.T, stream []byte, first, then byte) {
		for _, framing := range []framing{messages, packets, tlsUnits, answer} {
			for _, side := range []event.Side{event.Frontend, event.Backend} {
				fresh := func() *decoder { return &decoder{side: side, framing: framing} }
				whole := decode(fresh(), stream)
				assert.DeepEqual(t, decode(fresh(), stream, int(first), int(then)), whole)
				assert.DeepEqual(t, decode(fresh(), stream, 1), whole)
			}
		}
	})
}

// FuzzForward: without rules every byte goes through, in order, whatever it is, and
// memory stays bounded.
func FuzzForward(f *testing.F) {
	up, down := transaction(f)
	f.Add(up, down, uint16(5))
	f.Add([]byte("P\x00\x00\x00\x0f\x00/*a*/COMMIT"), []byte("E\x00\x00\x00\x0fSFATAL\x00C57"), uint16(1))
	f.Add([]byte("Q\x3f\xff\xff\xffDEALLOCATE ALL"), []byte("K\x00\x00\x00\x0c12345678Z\x00\x00\x00\x05I"), uint16(4096))
	f.Fuzz(func(t *testing.T, up, down []byte, size uint16) {
		s := offline(nowhere{})
		assert.Assert(t, bytes.Equal(push(&s.up, up, int(size)+1), up))
		assert.Assert(t, bytes.Equal(push(&s.down, down, int(size)+1), down))
		assert.Assert(t, cap(s.up.dec.kept) <= 2*startupMax && len(s.up.buf) <= 2*readSize)
	})
}

// FuzzHold: rules that match nothing change nothing either, for any sizes.
func FuzzHold(f *testing.F) {
	up, _ := transaction(f)
	f.Add(up, uint16(2), uint32(10))
	f.Add(up, uint16(9999), uint32(200_000))
	f.Fuzz(func(t *testing.T, up []byte, size uint16, long uint32) {
		s := offline(nowhere{})
		s.tap.rules.add(Rule{Match: func(*Session, event.Message) bool { return false }, Do: Drop{}})
		up = append(query(int(long%1_000_000)), up...)
		assert.Assert(t, bytes.Equal(push(&s.up, up, int(size)+1), up))
		assert.Assert(t, len(s.up.buf) <= holdMax+2*readSize)
	})
}

// query is a Query message with a body of n bytes and its terminator.
func query(n int) []byte {
	b := append([]byte{'Q', 0, 0, 0, 0}, bytes.Repeat([]byte{'x'}, n)...)
	b = append(b, 0)
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-1))
	return b
}

// FuzzOracle: what pgproto3 can read as a server's messages, the decoder sees with the
// same names and boundaries.
func FuzzOracle(f *testing.F) {
	_, down := transaction(f)
	f.Add(down)
	f.Add([]byte("E\x00\x00\x00\x1aSERROR\x00C42601\x00Mno\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		reader := bytes.NewReader(stream)
		oracle := pgproto3.NewFrontend(reader, io.Discard)
		d := backendDecoder()
		rest := stream
		for {
			msg, err := oracle.Receive()
			if err != nil {
				return
			}
			n, done := d.feed(rest)
			if d.bad != "" {
				return // stricter than pgproto3: it takes a length with surplus bytes
			}
			assert.Assert(t, done, "%T", msg)
			assert.Assert(t, sameName(msg, backendKinds[d.typ].name), "%T is not %s", msg, backendKinds[d.typ].name)
			rest = rest[n:]
		}
	})
}

func sameName(msg pgproto3.BackendMessage, name string) bool {
	theirs := strings.TrimPrefix(fmt.Sprintf("%T", msg), "*pgproto3.")
	return theirs == name || strings.HasPrefix(theirs, "Authentication") && name == "Authentication"
}

// FuzzScan: SQL text never yields a label or a verb outside what may be recorded.
func FuzzScan(f *testing.F) {
	for _, sql := range []string{"select 1", "/* a */COMMIT", "/* /* n */ */ end;", "--\n(/*x*/values(1))", "/*", "-- no end"} {
		f.Add([]byte(sql))
	}
	f.Fuzz(func(t *testing.T, sql []byte) {
		verb, label, _ := scan(sql)
		assert.Assert(t, verb == "" || commands[verb] == verb)
		assert.Assert(t, label == nil || isLabel(label))
	})
}

func TestScan(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"select 1":                                  "SELECT/",
		"  \n\tCoMmIt;":                             "COMMIT/",
		"/* conveyor:partition */ insert into x":    "INSERT/conveyor:partition",
		"/*a*/ /*b*/ delete from x":                 "DELETE/a",
		"/* it's not one */ /* job-2 */ update x":   "UPDATE/job-2",
		"/* outer /* inner */ still */ vacuum":      "VACUUM/",
		"-- note\n(select 1)":                       "SELECT/",
		"-- note without end":                       "/",
		"/* never closed select":                    "/",
		"/* " + strings.Repeat("x", 65) + " */ end": "END/",
		"hunter2 is my password":                    "/",
		"selectx":                                   "/",
		"":                                          "/",
	} {
		verb, label, _ := scan([]byte(sql))
		assert.Equal(t, verb+"/"+string(label), want, sql)
	}
}

func BenchmarkFlow(b *testing.B) {
	up, down := transaction(b)
	s := offline(nowhere{})
	b.SetBytes(int64(len(up) + len(down)))
	for b.Loop() {
		for _, one := range []*flow{&s.up, &s.down} {
			stream := up
			if one == &s.down {
				stream = down
			}
			n := copy(one.space(), stream)
			one.added(n, 1)
			for one.next().more {
			}
		}
	}
}
