package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"

	"deadwire/harness/pg"
)

// versions are the releases that are fetched.
var versions = map[int]embeddedpostgres.PostgresVersion{
	13: embeddedpostgres.V13, 14: embeddedpostgres.V14, 15: embeddedpostgres.V15,
	16: embeddedpostgres.V16, 17: embeddedpostgres.V17, pg.MajorMax: embeddedpostgres.V18,
}

// childVariable tells a process that it is a fetching child: JSON of task.
const childVariable = "DEADWIRE_EMBEDDED_FETCH"

// binariesName is the folder in a task's Dir for what is unpacked.
const binariesName = "unpacked"

// task is what a child does.
type task struct {
	Repository string
	Version    string
	Dir        string
	As         *syscall.Credential // whom it becomes first; nil: nobody else
}

// news is what a child tells, one JSON object per line.
type news struct {
	Progress string `json:",omitempty"`
	Failed   string `json:",omitempty"`
	Done     bool   `json:",omitempty"`
}

// Main is for the first lines of main: in a process that a fetch started it does
// the fetching, and returns the exit code and true.
func Main() (code int, child bool) {
	text, child := os.LookupEnv(childVariable)
	if !child {
		return 0, false
	}
	out := json.NewEncoder(os.Stdout)
	done := make(chan error, 1)
	go func() { done <- work(text, func(n news) { _ = out.Encode(n) }) }() // a parent that is gone needs no news
	orphaned := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // a pipe that nobody writes to: it ends with our parent
		close(orphaned)
	}()
	select {
	case err := <-done:
		if err != nil {
			_ = out.Encode(news{Failed: err.Error()})
			return 1, true
		}
		_ = out.Encode(news{Done: true})
		return 0, true
	case <-orphaned:
		return 1, true
	}
}

// work fetches and unpacks as an unprivileged user. The library has no call for
// that alone: its Start goes on to initdb, which is made to fail by a locale
// that does not exist. That all was unpacked by then is told by a file that it
// removes just before.
func work(text string, tell func(news)) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	if t.As != nil {
		if err := become(t.As); err != nil {
			return err
		}
	}
	witness := filepath.Join(t.Dir, "data", "not-yet-unpacked")
	if err := errors.Join(os.Mkdir(filepath.Dir(witness), 0o700), os.WriteFile(witness, nil, 0o600)); err != nil {
		return err
	}
	watch := watchTransport(tell)
	err := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(embeddedpostgres.PostgresVersion(t.Version)).BinaryRepositoryURL(t.Repository).
		CachePath(filepath.Join(t.Dir, "archive")).BinariesPath(filepath.Join(t.Dir, binariesName)).
		RuntimePath(filepath.Join(t.Dir, "runtime")).DataPath(filepath.Dir(witness)).
		Port(0).Locale("no such locale").Logger(io.Discard)).Start()
	if err == nil {
		return errors.New("initdb accepted a locale that does not exist")
	}
	if _, left := os.Lstat(witness); errors.Is(left, os.ErrNotExist) {
		return nil
	}
	return watch.explain(err)
}

func become(as *syscall.Credential) error {
	err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(int(as.Gid)), syscall.Setuid(int(as.Uid)))
	if err != nil {
		return fmt.Errorf("become user %d: %w", as.Uid, err)
	}
	return nil
}

// runChild runs a task in a child and returns what went wrong there.
func runChild(ctx context.Context, t task, progress func(string)) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self)
	// Its temporary files go where they are removed with the rest.
	cmd.Env = append(os.Environ(), childVariable+"="+string(text), "TMPDIR="+t.Dir)
	cmd.Dir = t.Dir
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	defer func() { _ = stdin.Close() }()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	last := listen(stdout, progress)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case last.Failed != "":
		return errors.New(last.Failed)
	case last.Done:
		return nil
	default:
		return fmt.Errorf("the fetching process told nothing: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
}

// listen passes progress on and returns the last news.
func listen(r io.Reader, progress func(string)) news {
	var last news
	for lines := bufio.NewScanner(r); lines.Scan(); {
		last = news{}
		if json.Unmarshal(lines.Bytes(), &last) == nil && last.Progress != "" {
			progress(last.Progress)
		}
	}
	return last
}
