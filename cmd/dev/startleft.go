package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"deadwire/harness/pg"
)

// account is what is on the machine of that which starts may leave, each in words.
type account map[string]bool

// without returns what is in a and not in b, in order.
func (a account) without(b account) []string {
	var left []string
	for thing := range a {
		if !b[thing] {
			left = append(left, thing)
		}
	}
	slices.Sort(left)
	return left
}

// look takes stock.
func (s *starts) look(ctx context.Context) (account, error) {
	a := account{}
	looks := []func(account) error{s.lookProcesses, s.lookFiles, s.lookMemory, s.lookPorts}
	switch {
	case s.postgres == "docker":
		looks = append(looks, func(a account) error { return lookDocker(ctx, a) })
	case strings.Contains(s.postgres, "://"):
		looks = append(looks, func(a account) error { return lookServer(ctx, s.postgres, a) })
	}
	var errs []error
	for _, look := range looks {
		errs = append(errs, look(a))
	}
	return a, errors.Join(errs...)
}

// lookProcesses finds processes that work in our folder, or name it: a server's
// working directory is its data folder.
func (s *starts) lookProcesses(a account) error {
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return err
	}
	for _, link := range links {
		dir, _ := os.Readlink(link)                                          // gone meanwhile, or another user's
		argv, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline")) // likewise
		pid := filepath.Base(filepath.Dir(link))
		if strings.HasPrefix(dir, s.dir) || strings.Contains(string(argv), s.dir) {
			a["process "+pid+" "+strings.ReplaceAll(string(argv), "\x00", " ")] = true
		}
	}
	return nil
}

// lookFiles finds temporary files, leases, and locks that are held. Caches stay
// on purpose, but not what a fetch or initdb has left half made.
func (s *starts) lookFiles(a account) error {
	temporary, err := os.ReadDir(filepath.Join(s.dir, "tmp"))
	for _, entry := range temporary {
		a["temporary file "+entry.Name()] = true
	}
	used, badPattern := filepath.Glob(filepath.Join(s.dir, runsName, "*", "*")) // an empty folder is as we made it
	for _, path := range used {
		a["in a run's folder: "+filepath.Base(path)] = true
	}
	err = errors.Join(err, badPattern)
	return errors.Join(err, filepath.WalkDir(filepath.Join(s.dir, "cache"), func(path string, entry fs.DirEntry, err error) error {
		switch name := filepath.Base(path); {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case strings.HasSuffix(name, ".half"), filepath.Base(filepath.Dir(path)) == "leases":
			a["in the cache: "+name] = true
		case strings.HasSuffix(name, ".lock") && !entry.IsDir() && held(path):
			a["held lock "+name] = true
		}
		return nil
	}))
}

// held reports whether somebody holds the flock on a file.
func held(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // and with it goes our own lock
	return errors.Is(syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// lookMemory finds System V segments that our postmasters made. Fields of
// /proc/sysvipc/shm: key shmid perms size cpid lpid …
func (s *starts) lookMemory(a account) error {
	table, err := os.ReadFile("/proc/sysvipc/shm")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		ours := func(r startReport) bool { return len(fields) > 4 && r.PID != 0 && fields[4] == strconv.Itoa(r.PID) }
		if s.postgres != "docker" && slices.ContainsFunc(s.reports(), ours) { // a container's pids are its own
			a["shared memory of process "+fields[4]] = true
		}
	}
	return err
}

// lookPorts finds ports of ours that still take connections. Another process of
// this machine may have got one by now; it is ours only while our server lives.
func (s *starts) lookPorts(a account) error {
	for _, r := range s.reports() {
		if r.PID == 0 {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Port)))
		if err != nil {
			a["port "+strconv.Itoa(r.Port)] = true
			continue
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (s *starts) reports() []startReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// lookDocker finds containers with our label, and volumes.
func lookDocker(ctx context.Context, a account) error {
	for kind, args := range map[string][]string{
		"container": {"ps", "--all", "--quiet", "--filter", "label=deadwire.postgres"},
		"volume":    {"volume", "ls", "--quiet"},
	} {
		out, err := exec.CommandContext(ctx, "docker", args...).Output()
		if err != nil {
			return fmt.Errorf("docker %s: %w", args[0], err)
		}
		for name := range strings.FieldsSeq(string(out)) {
			a[kind+" "+name] = true
		}
	}
	return nil
}

// lookServer finds databases of ours and advisory locks on a server that stays.
func lookServer(ctx context.Context, url string, a account) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	rows, err := conn.Query(ctx, `select 'database ' || datname from pg_database where starts_with(datname, $1)
		union all select 'advisory lock ' || classid || ' ' || objid from pg_locks where locktype = 'advisory'`, pg.Prefix)
	if err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	things, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, thing := range things {
		a[thing] = true
	}
	return errors.Join(err, conn.Close(ctx))
}
