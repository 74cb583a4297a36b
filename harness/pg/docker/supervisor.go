package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"deadwire/harness/pg/cluster"
)

// answerTimeout bounds one command; the longest is initdb.
const answerTimeout = 2 * time.Minute

// errGone says that the container has ended, or the daemon cut the connection.
var errGone = errors.New("the container has ended")

// postmaster is the server's process in the container.
type postmaster struct {
	pid    int
	exited chan struct{} // closed when it has ended, or the container has
	status string        // how it ended, as the shell says; set before exited is closed
}

// dead reports whether the postmaster has ended.
func (p *postmaster) dead() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// supervisor is the connection to the script that runs as the container's first process.
type supervisor struct {
	link    client.HijackedResponse
	turn    chan struct{}
	answers chan string
	ended   chan struct{} // closed when the connection has ended and all is read
	err     error         // of reading; set before ended is closed

	mu      sync.Mutex // guards what follows
	current *postmaster
}

// newSupervisor starts to read what the container says, and hands the server's
// log to log.
func newSupervisor(link client.HijackedResponse, log *cluster.Log) (*supervisor, error) {
	reader, writer, err := os.Pipe() // unlike io.Pipe it has deadlines, by which an entry's end is told
	if err != nil {
		link.Close()
		return nil, fmt.Errorf("make log pipe: %w", err)
	}
	s := &supervisor{
		link: link, turn: make(chan struct{}, 1),
		answers: make(chan string, 1), ended: make(chan struct{}),
	}
	logged := make(chan error, 1)
	go func() { logged <- errors.Join(cluster.ReadLog(reader, log.Entry), reader.Close()) }()
	go s.read(writer, logged)
	return s, nil
}

// read takes the two streams apart until the connection ends.
func (s *supervisor) read(log *os.File, logged <-chan error) {
	defer close(s.ended)
	defer s.end("the container's end")
	out, in := io.Pipe()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.heard(lines.Text())
		}
		_, _ = io.Copy(io.Discard, out) // nothing, unless a line was too long
	}()
	_, err := stdcopy.StdCopy(in, log, s.link.Reader)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		s.err = fmt.Errorf("read from container: %w", err)
	}
	_, _ = in.Close(), log.Close() // pipes: nothing to lose
	<-read
	s.err = errors.Join(s.err, <-logged)
}

// heard takes one line of the supervisor's. News of the postmaster can come at
// any time, in between answers.
func (s *supervisor) heard(line string) {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "ended":
		_, code, _ := strings.Cut(rest, " ")
		s.end("code " + code)
		return
	case "started":
		pid, _ := strconv.Atoi(rest) // the script writes a number
		s.mu.Lock()
		s.current = &postmaster{pid: pid, exited: make(chan struct{})}
		s.mu.Unlock()
	}
	select {
	case s.answers <- line:
	default: // nobody asked: who did has given up, and ended the connection
	}
}

func (s *supervisor) end(status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil && !s.current.dead() {
		s.current.status = status
		close(s.current.exited)
	}
}

func (s *supervisor) postmaster() *postmaster {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// ask gives a command, which may have further lines, and returns what follows
// "ok" in the answer. What has begun is waited for, whatever became of the
// caller: an answer that comes late would be taken for the next one.
func (s *supervisor) ask(ctx context.Context, lines ...string) (string, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	verb, _, _ := strings.Cut(lines[0], " ")
	if _, err := io.WriteString(s.link.Conn, strings.Join(lines, "\n")+"\n"); err != nil {
		return "", fmt.Errorf("%s in container: %w", verb, err)
	}
	limit := time.NewTimer(answerTimeout)
	defer limit.Stop()
	select {
	case answer := <-s.answers:
		return parse(verb, answer)
	case <-s.ended:
		return "", fmt.Errorf("%s in container: %w", verb, errors.Join(errGone, s.err))
	case <-limit.C:
		return "", fmt.Errorf("%s in container: %w", verb, errors.Join(errors.New("no answer"), s.close()))
	}
}

// errStranger is the answer to crash for a process that is no backend.
var errStranger = errors.New("no child of the postmaster")

func parse(verb, answer string) (string, error) {
	kind, rest, _ := strings.Cut(answer, " ")
	switch kind {
	case "ok", "started":
		return rest, nil
	case "stranger":
		return "", errStranger
	default:
		return "", fmt.Errorf("%s in container: %s", verb, rest)
	}
}

// write puts a file of whole lines into the server's home.
func (s *supervisor) write(ctx context.Context, name, text string) error {
	lines := append([]string{"write " + name}, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
	_, err := s.ask(ctx, append(lines, ".")...)
	return err
}

// close ends the connection, and so the container. It is repeatable.
func (s *supervisor) close() error {
	if err := s.link.Conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("leave container: %w", err)
	}
	return nil
}
