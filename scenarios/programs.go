package scenarios

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"deadwire/harness/rundir"
)

//go:embed programs/*.py
var programs embed.FS

// words that a scenario's command may contain
const (
	wordPrograms = "{{programs}}" // the folder of the programs that ship with deadwire
	wordPython   = "{{python}}"   // a Python that has psycopg2
	wordCase     = "{{case}}"     // the name of the case
)

// errNoPython is the reason why scenarios with Python programs are skipped.
var errNoPython = errors.New("no python3 with psycopg2 here (Debian and Ubuntu: apt-get install python3-psycopg2)")

// library is what commands may refer to, made when it is first needed.
type library struct {
	once, looked sync.Once
	dir, python  string
	err          error
}

// expand fills the words of a command in.
func (l *library) expand(ctx context.Context, run *rundir.Dir, command []string, name string) ([]string, error) {
	has := func(word string) bool {
		return slices.ContainsFunc(command, func(arg string) bool { return strings.Contains(arg, word) })
	}
	if has(wordPython) {
		l.looked.Do(func() { l.python = findPython(ctx) })
		if l.python == "" {
			return nil, &UnavailableError{Err: errNoPython}
		}
	}
	if has(wordPrograms) {
		l.once.Do(func() { l.dir, l.err = extract(run.File("programs")) })
		if l.err != nil {
			return nil, fmt.Errorf("%w: %w", ErrEnvironment, l.err)
		}
	}
	fill := strings.NewReplacer(wordPrograms, l.dir, wordPython, l.python, wordCase, name)
	var expanded []string
	for _, arg := range command {
		expanded = append(expanded, fill.Replace(arg))
	}
	return expanded, nil
}

// findPython returns a Python that has psycopg2: the first on PATH, else the
// distribution's, for which its packages are.
func findPython(ctx context.Context) string {
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		path, err := exec.LookPath(name)
		if err == nil && exec.CommandContext(ctx, path, "-c", "import psycopg2").Run() == nil {
			return path
		}
	}
	return ""
}

func extract(dir string) (string, error) {
	files, err := programs.ReadDir("programs")
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	for _, file := range files {
		text, err := programs.ReadFile("programs/" + file.Name())
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, file.Name()), text, 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}
