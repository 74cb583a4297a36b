package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"deadwire/harness/pg"
)

// toolTimeout bounds a call such as `postgres --version`.
const toolTimeout = 10 * time.Second

// folders where distributions put server binaries that are not on PATH:
// Debian, RPM (PGDG), Homebrew on both architectures, Postgres.app, FreeBSD and source builds.
var binPatterns = [...]string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	"/usr/local/pgsql/bin",
}

// binaries is one installation of the server.
type binaries struct {
	dir     string
	version pg.Version
	modTime time.Time // of postgres: an upgrade in place makes a new cache entry
}

func (b *binaries) path(tool string) string { return filepath.Join(b.dir, tool) }

// find returns the installation to use: the one in binDir if that is given,
// else the first on PATH, else the newest elsewhere. Its errors are
// *pg.TooOldError, when nothing better was seen, and *pg.MissingError.
func find(ctx context.Context, binDir string, as *account) (*binaries, error) {
	places := [][]string{{binDir}}
	if binDir == "" {
		places = [][]string{onPath(), inFolders(), byConfig(ctx)}
	}
	var looked []string
	var tooOld *pg.TooOldError
	for _, dirs := range places {
		var found []*binaries
		for _, dir := range dirs {
			b, err := inspect(ctx, dir, as)
			if err == nil {
				found = append(found, b)
				continue
			}
			looked = append(looked, err.Error())
			errors.As(err, &tooOld)
		}
		if len(found) > 0 {
			return slices.MaxFunc(found, newer), nil
		}
	}
	switch {
	case ctx.Err() != nil: // a look that was broken off has found out nothing
		return nil, context.Cause(ctx)
	case tooOld != nil:
		return nil, tooOld
	case binDir != "":
		return nil, &pg.MissingError{Looked: looked, Install: "name the folder that holds postgres and initdb"}
	}
	looked = append(looked, "PATH", "the usual folders", "pg_config")
	return nil, &pg.MissingError{Looked: looked, Install: installHint()}
}

func newer(a, b *binaries) int {
	return cmp.Or(cmp.Compare(a.version.Major, b.version.Major), cmp.Compare(a.version.Minor, b.version.Minor))
}

func onPath() []string {
	path, err := exec.LookPath("postgres")
	if err != nil {
		return nil
	}
	// A link in /usr/local/bin or Homebrew's bin: initdb stands beside its target.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return []string{filepath.Dir(path)}
}

func inFolders() []string {
	var dirs []string
	for _, pattern := range binPatterns {
		found, err := filepath.Glob(pattern)
		if err == nil {
			dirs = append(dirs, found...)
		}
	}
	return dirs
}

func byConfig(ctx context.Context) []string {
	out, err := output(ctx, "pg_config", "--bindir")
	if err != nil {
		return nil
	}
	return []string{strings.TrimSpace(out)}
}

// inspect checks that a folder holds a server that we can run.
func inspect(ctx context.Context, dir string, as *account) (*binaries, error) {
	b := &binaries{dir: dir}
	for _, tool := range []string{"postgres", "initdb"} {
		info, err := os.Stat(b.path(tool))
		if err != nil {
			return nil, fmt.Errorf("%s: no %s", dir, tool)
		}
		b.modTime = info.ModTime()
	}
	if !as.reaches(dir) {
		return nil, fmt.Errorf("%s: user %s may not enter it", dir, as.name)
	}
	out, err := output(ctx, b.path("postgres"), "--version")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if b.version, err = pg.ParseVersion(out); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if b.version.Major < pg.MajorMin {
		return nil, &pg.TooOldError{Version: b.version, Where: dir}
	}
	return b, nil
}

func output(ctx context.Context, command string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, command, args...).Output()
	if err != nil {
		return "", fmt.Errorf("run %s: %w", command, err)
	}
	return string(out), nil
}

func installHint() string {
	if runtime.GOOS == "darwin" {
		return "install them with `brew install postgresql@17`"
	}
	for file, hint := range map[string]string{
		"/usr/bin/apt-get": "install them with `apt-get install postgresql`",
		"/usr/bin/dnf":     "install them with `dnf install postgresql-server`",
		"/usr/bin/zypper":  "install them with `zypper install postgresql-server`",
		"/sbin/apk":        "install them with `apk add postgresql`",
		"/usr/bin/pacman":  "install them with `pacman -S postgresql`",
	} {
		if _, err := os.Stat(file); err == nil {
			return hint
		}
	}
	return fmt.Sprintf("install the server of PostgreSQL %d or later", pg.MajorMin)
}
