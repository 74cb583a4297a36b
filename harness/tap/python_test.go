package tap

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"gotest.tools/v3/assert"

	"deadwire/harness/wait"
)

// prelude connects with psycopg2 and talks to the test by lines.
const prelude = `
import os, sys, psycopg2
def say(*words): print(*words, flush=True)
def hear(): return sys.stdin.readline().strip()
conn = psycopg2.connect(host='127.0.0.1', user='postgres', dbname='postgres', sslmode=os.environ.get('MODE', 'prefer'))
conn.autocommit = True
cur = conn.cursor()
`

type python struct {
	b   *bench
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// python runs a script in a psycopg2 process, connected through the tap.
func (b *bench) python(script string, env ...string) *python {
	b.t.Helper()
	cmd := exec.CommandContext(b.ctx, "/usr/bin/python3", "-c", prelude+script)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+password, "PGPORT="+strconv.Itoa(int(b.tap.Addr().Port())))
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	assert.NilError(b.t, err)
	out, err := cmd.StdoutPipe()
	assert.NilError(b.t, err)
	assert.NilError(b.t, cmd.Start())
	p := &python{b: b, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	b.t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return p
}

func (p *python) line() string {
	p.b.t.Helper()
	assert.Assert(p.b.t, p.out.Scan(), "no line from python")
	return strings.TrimSpace(p.out.Text())
}

func (p *python) expect(line string) {
	p.b.t.Helper()
	assert.Equal(p.b.t, p.line(), line)
}

func (p *python) tell(line string) {
	p.b.t.Helper()
	_, err := io.WriteString(p.in, line+"\n")
	assert.NilError(p.b.t, err)
}

// backendGone waits until the server has no such process any more.
func (b *bench) backendGone(pid int) {
	b.t.Helper()
	assert.Assert(b.t, pid != 0)
	conn := b.direct()
	err := wait.For(b.ctx, "the backend to end", func(ctx context.Context) wait.Answer {
		var n int
		if err := conn.QueryRow(ctx, "select count(*) from pg_stat_activity where pid = $1", pid).Scan(&n); err != nil {
			return wait.Never(err)
		}
		if n != 0 {
			return wait.NotYet("it is there")
		}
		return wait.Done()
	})
	assert.NilError(b.t, err)
}
