package witness_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"deadwire/harness/event"
	"deadwire/harness/subject"
	"deadwire/harness/witness"

	"gotest.tools/v3/assert"
)

// server accepts sessions as a tap does, and reads what it is sent.
type server struct {
	witness  *witness.Witness
	journal  *event.Journal
	listener net.Listener
	serving  sync.WaitGroup
	relay    string // address of a real server, "" to only read
}

func newServer(t *testing.T, options witness.Options, relay string) *server {
	t.Helper()
	if err := witness.Available(); err != nil && !options.Disabled {
		t.Skip(err)
	}
	journal := event.NewJournal(nil, 0)
	options.Recorder = journal
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	assert.NilError(t, err)
	s := &server{witness: witness.New(options), journal: journal, listener: listener, relay: relay}
	s.serving.Go(s.accept)
	t.Cleanup(func() {
		assert.NilError(t, listener.Close())
		s.serving.Wait()
		assert.NilError(t, s.witness.Close(context.WithoutCancel(t.Context())))
		if t.Failed() {
			s.dump(t)
		}
	})
	return s
}

func (s *server) dump(t *testing.T) {
	for _, e := range s.journal.Events() {
		t.Logf("%d %v %s pid %d session %v: %+v %+v %+v %+v %+v", e.Seq, e.At, e.Kind, e.PID, e.Session,
			e.Process, e.Call, e.Holders, e.Output, e.Step)
	}
}

func (s *server) address() string { return s.listener.Addr().String() }

func (s *server) accept() {
	for n := 1; ; n++ {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		id := event.SessionID{Place: event.Front, N: n}
		opened := s.witness.Accepted(id, addrPort(conn.RemoteAddr()), addrPort(conn.LocalAddr()))
		s.journal.Record(event.Event{Kind: event.SessionOpened, Session: id, Opened: &opened})
		s.serving.Go(func() { s.serve(id, conn) })
	}
}

func addrPort(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }

func (s *server) serve(id event.SessionID, conn net.Conn) {
	defer s.witness.Ended(id)
	defer conn.Close() //nolint:errcheck // read to the end already
	if s.relay == "" {
		_, _ = conn.Write([]byte("!"))
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	upstream, err := net.Dial("tcp4", s.relay)
	if err != nil {
		return
	}
	defer upstream.Close() //nolint:errcheck // as above
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(conn, upstream)
		_ = conn.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(upstream, conn)
	_ = upstream.(*net.TCPConn).CloseWrite()
	back.Wait()
}

func (s *server) start(t *testing.T, path string, args []string, env ...string) *subject.Instance {
	t.Helper()
	return s.startWith(t, subject.Command{Path: path, Args: args, Env: append(os.Environ(), env...)})
}

func (s *server) startWith(t *testing.T, command subject.Command) *subject.Instance {
	t.Helper()
	i, err := subject.Start(t.Context(), command,
		subject.Options{Recorder: s.journal, Witness: s.witness})
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, i.Close(context.WithoutCancel(t.Context()))) })
	return i
}

// await returns the nth event of a kind.
func (s *server) await(t *testing.T, kind event.Kind, nth int) event.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	e, err := s.journal.Await(ctx, 0, string(kind), func(e event.Event) bool {
		if e.Kind == kind {
			nth--
		}
		return nth == 0
	})
	assert.NilError(t, err)
	return e
}

func (s *server) finish(t *testing.T, i *subject.Instance) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	exit, err := i.Wait(ctx)
	assert.NilError(t, err)
	assert.Equal(t, exit, subject.Exit{}, "%v", i.Tail())
	assert.NilError(t, i.Close(ctx))
}

func (s *server) calls(name event.CallName, kind string) []event.Event {
	return slices.DeleteFunc(s.journal.Events(), func(e event.Event) bool {
		return e.Kind != event.ProcessCalled || e.Call.Name != name || kind != "" && e.Call.Type != kind
	})
}

func (s *server) opened(session int) event.Opened {
	for _, e := range s.journal.Events() {
		if e.Kind == event.SessionOpened && e.Session.N == session {
			return *e.Opened
		}
	}
	return event.Opened{}
}

// trial is what a sharer said that it did.
type trial struct{ session, sender, parent, child int }

func (s *server) trials(t *testing.T) []trial {
	t.Helper()
	var trials []trial
	for _, e := range s.journal.Events() {
		if e.Kind != event.SubjectOutput || !strings.HasPrefix(e.Output.Text, "trial") {
			continue
		}
		var one trial
		_, err := fmt.Sscanf(e.Output.Text, "trial %d sender %d parent %d child %d",
			&one.session, &one.sender, &one.parent, &one.child)
		assert.NilError(t, err)
		trials = append(trials, one)
	}
	return trials
}

// trialCount is the number of trials in each shape. WITNESS_TRIALS raises it.
func trialCount(t *testing.T) int {
	if n, err := strconv.Atoi(os.Getenv("WITNESS_TRIALS")); err == nil {
		return n
	}
	if testing.Short() {
		return 12
	}
	return 50
}

func TestSenderOpenerAndHoldersAreExact(t *testing.T) {
	t.Parallel()
	for _, busy := range []string{"", "1"} {
		t.Run("busy="+busy, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, witness.Options{}, "")
			i := s.start(t, "/proc/self/exe", nil, roleVariable+"=sharer", "SERVER="+s.address(),
				"TRIALS="+strconv.Itoa(trialCount(t)), "BUSY="+busy)
			s.finish(t, i)
			assert.Equal(t, s.witness.Certainty(), witness.Exact)
			trials := s.trials(t)
			assert.Equal(t, len(trials), trialCount(t))
			terminates := s.calls(event.CallSend, "Terminate")
			assert.Equal(t, len(terminates), len(trials))
			for n, tr := range trials {
				assert.Equal(t, terminates[n].PID, tr.sender, "%+v", tr)
				assert.Equal(t, terminates[n].Session.N, tr.session)
				assert.DeepEqual(t, terminates[n].Call.Holders, slices.Sorted(slices.Values([]int{tr.parent, tr.child})))
				assert.Equal(t, s.opened(tr.session).Opener, tr.parent)
				assert.Assert(t, s.opened(tr.session).Inode != 0)
			}
		})
	}
}

const holdScript = `
import os, socket, sys
host, port = sys.argv[1].split(":")
s = socket.create_connection((host, int(port)))
s.recv(1)
child = os.fork()
if child == 0:
    os.read(0, 1)
    s.close()
    os.read(0, 1)
    os._exit(0)
os.write(1, b"child %d\n" % child)
os.waitpid(child, 0)
`

func TestSharingIsRecordedUnderBothWitnesses(t *testing.T) {
	t.Parallel()
	for name, disabled := range map[string]bool{"exact": false, "holders": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, witness.Options{Disabled: disabled}, "")
			theirs, ours, err := os.Pipe()
			assert.NilError(t, err)
			defer ours.Close() //nolint:errcheck // nothing depends on it
			i := s.startWith(t, subject.Command{
				Path: "/usr/bin/python3", Args: []string{"-c", holdScript, s.address()}, Stdin: theirs,
			})
			assert.NilError(t, theirs.Close())

			shared := s.await(t, event.SessionShared, 1)
			assert.Equal(t, s.opened(1).Opener, i.PID())
			assert.Equal(t, shared.Holders.Opener, i.PID())
			assert.Equal(t, len(shared.Holders.PIDs), 2)
			_, err = ours.WriteString(".")
			assert.NilError(t, err)
			alone := s.await(t, event.SessionShared, 2)
			assert.DeepEqual(t, alone.Holders.PIDs, []int{i.PID()})
			_, err = ours.WriteString(".")
			assert.NilError(t, err)
			s.finish(t, i)

			var child int
			_, err = fmt.Sscanf(i.Tail()[0].Text, "child %d", &child)
			assert.NilError(t, err)
			assert.DeepEqual(t, shared.Holders.PIDs, slices.Sorted(slices.Values([]int{i.PID(), child})))
			assert.Equal(t, s.witness.Certainty() == witness.Exact, !disabled)
		})
	}
}

func TestHoldersWitnessSaysWhyItIsNotExact(t *testing.T) {
	t.Parallel()
	s := newServer(t, witness.Options{Disabled: true}, "")
	events := s.journal.Events()
	assert.Equal(t, len(events), 1)
	assert.Equal(t, events[0].Kind, event.WitnessFailed)
	assert.Equal(t, events[0].Step.Note, "the exact witness is switched off")
}

func TestEverySendIsNamedWhenAllAreAskedFor(t *testing.T) {
	t.Parallel()
	s := newServer(t, witness.Options{Sends: witness.All}, "")
	i := s.start(t, "/usr/bin/python3", []string{"-c", `
import os, socket, sys
host, port = sys.argv[1].split(":")
s = socket.create_connection((host, int(port)))
s.recv(1)
def message(kind, body=b""): return kind + (len(body) + 4).to_bytes(4, "big") + body
s.sendall(message(b"Q", b"select 'a secret'\0"))
child = os.fork()
if child == 0:
    os.write(s.fileno(), message(b"P", b"\0select\0\0\0") + message(b"S"))
    os._exit(3)
os.waitpid(child, 0)
s.sendmsg([message(b"d", b"x" * 100000)])
s.shutdown(socket.SHUT_WR)
`, s.address()})
	s.finish(t, i)
	type sent struct {
		root  bool
		kind  string
		bytes int
	}
	var got []sent
	for _, e := range s.calls(event.CallSend, "") {
		assert.Equal(t, e.Session.N, 1)
		got = append(got, sent{e.PID == i.PID(), e.Call.Type, e.Call.Bytes})
	}
	assert.Equal(t, fmt.Sprint(got), fmt.Sprint([]sent{
		{true, "Query", 23}, {false, "Parse", 20}, {true, "CopyData", 100005},
	}))
	shutdowns := s.calls(event.CallShutdown, "")
	assert.Equal(t, len(shutdowns), 1)
	assert.Equal(t, shutdowns[0].PID, i.PID())
	exits := s.calls(event.CallExit, "")
	assert.Equal(t, len(exits), 2)
	assert.Equal(t, exits[0].Call.Code, 3)
	connects := s.calls(event.CallConnect, "")
	assert.Equal(t, connects[len(connects)-1].Call.Remote, s.address())
}

func TestDecisionSuppressesACall(t *testing.T) {
	t.Parallel()
	foreign := func(q witness.Question) witness.Decision {
		if q.Call.Type == "Terminate" && q.PID != q.Opener && len(q.Call.Holders) > 1 {
			return witness.Suppress
		}
		return witness.Proceed
	}
	s := newServer(t, witness.Options{Decide: foreign}, "")
	i := s.start(t, "/usr/bin/python3", []string{"-c", `
import os, socket, sys
host, port = sys.argv[1].split(":")
s = socket.create_connection((host, int(port)))
s.recv(1)
child = os.fork()
if child == 0:
    assert s.send(b"X\0\0\0\4") == 5
    os._exit(0)
os.waitpid(child, 0)
s.send(b"X\0\0\0\4")
`, s.address()})
	s.finish(t, i)
	terminates := s.calls(event.CallSend, "Terminate")
	assert.Equal(t, len(terminates), 2)
	assert.Assert(t, terminates[0].Call.Blocked && terminates[0].PID != i.PID())
	assert.Assert(t, !terminates[1].Call.Blocked && terminates[1].PID == i.PID())
}

func TestBelowAnotherWitnessHoldersAreLeft(t *testing.T) {
	t.Parallel()
	s := newServer(t, witness.Options{}, "")
	i := s.start(t, "/proc/self/exe", nil, roleVariable+"=nested")
	s.finish(t, i)
	var text strings.Builder
	for _, line := range i.Tail() {
		text.WriteString(line.Text + "\n")
	}
	assert.Assert(t, strings.Contains(text.String(), "inner\n"), text.String())
	assert.Assert(t, strings.Contains(text.String(), "another seccomp listener is already above"), text.String())
	assert.Assert(t, strings.Contains(text.String(), "certainty holders holders\nclosed <nil> <nil>\n"), text.String())
}

// A supervisor that dies must not leave the subject waiting: the kernel then
// fails its filtered calls.
func TestKilledSupervisorDoesNotHangTheSubject(t *testing.T) {
	t.Parallel()
	if err := witness.Available(); err != nil {
		t.Skip(err)
	}
	supervisor := exec.Command("/proc/self/exe")
	supervisor.Env = append(os.Environ(), roleVariable+"=supervisor")
	in, err := supervisor.StdinPipe()
	assert.NilError(t, err)
	out, err := supervisor.StdoutPipe()
	assert.NilError(t, err)
	lines := bufio.NewReader(out)
	assert.NilError(t, supervisor.Start())
	var child int
	_, err = fmt.Fscanf(lines, "child %d\n", &child)
	assert.NilError(t, err)
	group, err := syscall.Getpgid(child)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(-group, syscall.SIGKILL) })
	assert.NilError(t, supervisor.Process.Kill())
	state, err := supervisor.Process.Wait()
	assert.NilError(t, err)
	assert.Equal(t, state.Sys().(syscall.WaitStatus).Signal(), syscall.SIGKILL)

	_, err = io.WriteString(in, "12345\n")
	assert.NilError(t, err)
	answer, err := lines.ReadString('\n')
	assert.NilError(t, err)
	assert.Equal(t, answer, ": function not implemented\n")
	// Its exit_group is filtered too. Go's own probe for pidfd, a clone that does
	// nothing but exit, may be caught in that call and spin: the whole group goes.
	err = syscall.Kill(-group, syscall.SIGKILL)
	assert.Assert(t, err == nil || errors.Is(err, syscall.ESRCH))
}
