package pgtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/poll"

	"deadwire/harness/pg"
)

// childVariable tells a re-executed test binary what to start: JSON of childTask.
const childVariable = "DEADWIRE_PGTEST_CHILD"

type childTask struct {
	Provider string
	URL      string // of the server, for a provider that needs one
	Cache    string
	Dir      string
}

type childReport struct {
	PID      int
	Port     int
	Socket   string
	Children []int
	Clone    string
}

// Makers says how a child makes the provider of a given name.
type Makers map[string]func(url string) pg.Provider

// Main is for TestMain: it runs the tests, or, in a process that the suite
// started, a server until that process is killed. It returns the exit code.
func Main(m *testing.M, makers Makers) int {
	text, child := os.LookupEnv(childVariable)
	if !child {
		return m.Run()
	}
	if err := runChild(text, makers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runChild(text string, makers Makers) error {
	var task childTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return err
	}
	ctx := context.Background()
	server, err := makers[task.Provider](task.URL).Start(ctx, pg.Config{Dir: task.Dir, CacheDir: task.Cache})
	if err != nil {
		return err
	}
	databases := pg.NewDatabases(server)
	name, err := databases.Template(ctx, "killed", func(context.Context, string) error { return nil })
	if err != nil {
		return err
	}
	clone, err := databases.Clone(ctx, name)
	if err != nil {
		return err
	}
	address := server.Address()
	report := childReport{PID: server.PID(), Port: address.Port, Socket: address.SocketDir, Children: childrenOf(server.PID()), Clone: clone.Name()}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin) // until we are killed
	return err
}

// killedLeavesNothing starts a server in a process of its own and kills that.
func (s *suite) killedLeavesNothing(t *testing.T) {
	server, _ := s.start(t) // a second one beside it, or the one that the child uses
	report := s.killOne(t, server)
	if report.PID == 0 {
		s.sweptByNext(t, server)
		return
	}
	assert.Assert(t, len(report.Children) > 0 || s.left != nil)
	s.awaitEnd(t, pg.Address{Host: "127.0.0.1", Port: report.Port}, append(report.Children, report.PID)...)
	// The folder is the janitor's, or goes with the next start.
	next, _ := s.start(t)
	assert.Assert(t, next.PID() != 0)
	if report.Socket != "" {
		_, err := os.Stat(filepath.Dir(report.Socket))
		assert.ErrorIs(t, err, os.ErrNotExist)
	}
	do(t, openMaintenance(t, server), "SELECT 1") // the other one is untouched
}

// sweptByNext checks that the next user of a lasting server removes what the
// killed one left.
func (s *suite) sweptByNext(t *testing.T, server pg.Server) {
	conn := openMaintenance(t, server)
	assert.Assert(t, databasesLeft(t, conn) > 0)
	poll.WaitOn(t, func(poll.LogT) poll.Result { // its session, and so its locks, end when the server notices
		databases := pg.NewDatabases(server)
		if err := databases.Drop(bounded(t), pg.Prefix+"none"); err != nil {
			return poll.Error(err)
		}
		if err := databases.Close(bounded(t)); err != nil {
			return poll.Error(err)
		}
		if left := databasesLeft(t, conn); left > 0 {
			return poll.Continue("%d databases left", left)
		}
		return poll.Success()
	}, poll.WithTimeout(patience))
}

func (s *suite) killOne(t *testing.T, server pg.Server) childReport {
	t.Helper()
	task, err := json.Marshal(childTask{
		Provider: server.Provider(), URL: server.URL(server.Address().Database), Cache: s.cache, Dir: t.TempDir(),
	})
	assert.NilError(t, err)
	child := exec.CommandContext(bounded(t), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+string(task))
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	assert.NilError(t, err)
	defer func() { _ = stdin.Close() }()
	stdout, err := child.StdoutPipe()
	assert.NilError(t, err)
	assert.NilError(t, child.Start())
	line, readErr := bufio.NewReader(stdout).ReadBytes('\n')
	assert.NilError(t, child.Process.Kill())
	assert.ErrorContains(t, child.Wait(), "killed")
	assert.NilError(t, readErr)
	var report childReport
	assert.NilError(t, json.Unmarshal(line, &report))
	return report
}
