package janitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"deadwire/harness/wait"
)

// newLeaseMax is how old a lease may be that was created but never locked into
// place, where its creator cannot be looked up: it died within microseconds, or is
// about to finish.
const newLeaseMax = time.Hour

// Swept says what a sweep did.
type Swept struct {
	Leases    []string // files of dead runs that were dealt with
	Processes []int    // pids that were killed
	Dirs      []string // folders that were removed
	Items     []Item   // other kinds that a Remover removed
	Left      []Item   // what could not be removed; its lease stays for the next sweep
	Live      int      // leases of living runs, untouched
	Foreign   int      // leases of another pid namespace, whose pids mean nothing here
}

// Remover removes things of one kind that Lease.Own recorded. Remove is
// repeatable: a thing that is gone already is not an error.
type Remover struct {
	Kind   string
	Remove func(ctx context.Context, value string) error
}

// Sweep removes what dead runs under root (empty: DefaultRoot) left behind. It
// is safe beside living runs and other sweeps. Kinds without a Remover stay
// recorded and are returned in Swept.Left. All leases are tried; the errors are
// joined.
func Sweep(ctx context.Context, root string, removers ...Remover) (Swept, error) {
	var swept Swept
	root, err := prepare(root)
	if err != nil {
		return swept, err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return swept, fmt.Errorf("sweep leases: %w", err)
	}
	s := sweep{swept: &swept, removers: removers}
	var errs []error
	for _, entry := range entries {
		path := filepath.Join(root, entry.Name())
		switch {
		case ctx.Err() != nil:
			errs = append(errs, context.Cause(ctx))
			return swept, errors.Join(errs...)
		case strings.HasSuffix(entry.Name(), suffix):
			errs = append(errs, s.lease(ctx, path))
		default:
			errs = append(errs, removeStillborn(path))
		}
	}
	return swept, errors.Join(errs...)
}

// removeStillborn removes the file of a run that died while creating its lease.
func removeStillborn(path string) error {
	info, err := os.Lstat(path)
	if err != nil || !strings.HasPrefix(info.Name(), "new-") {
		return nil
	}
	if !creatorDied(info.Name()) && time.Since(info.ModTime()) < newLeaseMax {
		return nil
	}
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) { // another sweep was faster
		return err
	}
	return nil
}

// creatorDied reports whether the process is gone that began a lease of this name.
func creatorDied(name string) bool {
	rest, ours := strings.CutPrefix(name, "new-"+spaceNumber()+"-")
	number, _, _ := strings.Cut(rest, "-")
	pid, err := strconv.Atoi(number)
	return ours && err == nil && pid > 0 && unix.Kill(pid, 0) == unix.ESRCH
}

type sweep struct {
	swept    *Swept
	removers []Remover
}

// lease deals with one lease, if its holder is dead and nobody else is at it.
func (s *sweep) lease(ctx context.Context, path string) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // released, or swept by another
	}
	if err != nil {
		return fmt.Errorf("sweep lease: %w", err)
	}
	if !lockDead(ctx, file) {
		s.swept.Live++ // its run lives, or another sweep is at it
		return file.Close()
	}
	defer func() { err = errors.Join(err, unlock(file)) }()
	if !same(file, path) {
		return nil // another sweep finished between our open and our lock
	}
	head, items, err := read(file)
	if err != nil {
		return fmt.Errorf("sweep lease %s: %w", path, err)
	}
	if head.Boot == bootID() && head.Space != pidSpace() {
		s.swept.Foreign++
		return nil
	}
	left, err := s.items(ctx, head, items)
	if err != nil || len(left) > 0 {
		s.swept.Left = append(s.swept.Left, left...)
		return err
	}
	s.swept.Leases = append(s.swept.Leases, path)
	return os.Remove(path) // while locked, so that nobody does it twice
}

// copyMax is how long a dead run's lock may outlive it: a process that the run was
// forking when it was killed keeps a copy of the descriptor until its exec.
const copyMax = 2 * time.Second

// lockDead locks a lease, unless its run lives.
func lockDead(ctx context.Context, file *os.File) bool {
	if lock(file) == nil {
		return true
	}
	head, _, err := read(file)
	if err != nil || head.Boot != bootID() || head.Space != pidSpace() || unix.Kill(head.PID, 0) != unix.ESRCH {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, copyMax)
	defer cancel()
	locked := wait.For(ctx, "a dead run's lock", func(context.Context) wait.Answer {
		if err := lock(file); err != nil {
			return wait.NotYet("%v", err)
		}
		return wait.Done()
	})
	if locked != nil {
		return false
	}
	_, err = file.Seek(0, io.SeekStart)
	return err == nil
}

func same(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, named)
}

// items removes everything that a dead lease owns: processes first, since they
// may still write into the folders.
func (s *sweep) items(ctx context.Context, head header, items []Item) ([]Item, error) {
	var left []Item
	var errs []error
	if head.Boot == bootID() { // another boot's processes are all dead
		killed, spared, err := killAll(ctx, head.Token, items)
		s.swept.Processes = append(s.swept.Processes, killed...)
		left, errs = append(left, spared...), append(errs, err)
	}
	for _, item := range items {
		removed, err := s.item(ctx, head, item)
		if err != nil || !removed {
			left, errs = append(left, item), append(errs, err)
		}
	}
	return left, errors.Join(errs...)
}

// item removes one thing that is not a process and reports whether it is gone.
func (s *sweep) item(ctx context.Context, head header, item Item) (bool, error) {
	switch item.Kind {
	case kindProcess:
		return true, nil
	case kindDir:
		return s.dir(head, item.Value)
	}
	for _, r := range s.removers {
		if r.Kind != item.Kind {
			continue
		}
		if err := r.Remove(ctx, item.Value); err != nil {
			return false, fmt.Errorf("sweep %s %s: %w", item.Kind, item.Value, err)
		}
		s.swept.Items = append(s.swept.Items, item)
		return true, nil
	}
	return false, nil
}

// dir removes a folder that carries the lease's own mark, inside or beside it. A
// folder that is gone or was marked by somebody else is not the lease's any more.
func (s *sweep) dir(head header, path string) (bool, error) {
	beside := path + MarkerName
	ours := marked(beside, head.Token)
	if info, err := os.Lstat(path); err == nil && info.IsDir() && (ours || marked(filepath.Join(path, MarkerName), head.Token)) {
		if err := removeMarked(path); err != nil {
			return false, fmt.Errorf("sweep folder: %w", err)
		}
		s.swept.Dirs = append(s.swept.Dirs, path)
	}
	if ours {
		if err := os.Remove(beside); err != nil {
			return false, fmt.Errorf("sweep folder: %w", err)
		}
	}
	return true, nil
}

func marked(path, token string) bool {
	mark, err := os.ReadFile(path)
	return err == nil && strings.TrimSpace(string(mark)) == token
}

// removeMarked removes a folder and its mark last of all: a sweep that is
// killed half-way leaves a folder that the next one still knows as its own.
func removeMarked(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		if entry.Name() != MarkerName {
			errs = append(errs, os.RemoveAll(filepath.Join(path, entry.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// killWait is how long a killed process may take to be gone; one in
// uninterruptible sleep is left to the next sweep.
const killWait = 5 * time.Second

// killAll ends the recorded processes that are still the same, all their
// descendants, and those that carry the token. Ourselves and our ancestors are
// spared: a sweep may have been started by what it sweeps.
func killAll(ctx context.Context, token string, items []Item) (killed []int, spared []Item, err error) {
	ctx, cancel := context.WithTimeout(ctx, killWait)
	defer cancel()
	frozen := map[int]*target{}
	defer func() {
		for _, t := range frozen {
			t.close()
		}
	}()
	// Stopped before they are killed, round after round until none is new: a
	// family that still forks would outrun us otherwise.
	for more := true; more && ctx.Err() == nil; {
		var fresh []*target
		fresh, spared = collect(token, items, frozen)
		for _, t := range fresh {
			frozen[t.pid] = t
			_ = t.signal(unix.SIGSTOP) // one that ended meanwhile is what we want
		}
		more = len(fresh) > 0
	}
	var errs []error
	for pid, t := range frozen {
		if t.signal(unix.SIGKILL) == nil {
			killed = append(killed, pid)
		}
	}
	for pid, t := range frozen {
		if err := t.wait(ctx); err != nil {
			errs = append(errs, fmt.Errorf("sweep process %d: %w", pid, err))
		}
	}
	return killed, spared, errors.Join(errs...)
}

// collect returns the processes that belong to the lease and are not in known.
func collect(token string, items []Item, known map[int]*target) (fresh []*target, spared []Item) {
	table := processes()
	ours := ancestors(table, os.Getpid())
	wanted := members(table, token, items)
	for pid := range wanted {
		if ours[pid] {
			spared = append(spared, Item{Kind: kindProcess, PID: pid, Start: table[pid].start})
			continue
		}
		if known[pid] != nil {
			continue
		}
		if t := open(pid, table[pid].start); t != nil {
			fresh = append(fresh, t)
		}
	}
	return fresh, spared
}

// process is a row of the table of processes.
type process struct {
	ppid  int
	start uint64
}

// ancestors returns pid and all processes above it.
func ancestors(table map[int]process, pid int) map[int]bool {
	line := map[int]bool{}
	for pid > 0 && !line[pid] {
		line[pid] = true
		pid = table[pid].ppid
	}
	return line
}

// members returns the pids of items that are still the same processes, of those
// that carry the token, and of all their descendants.
func members(table map[int]process, token string, items []Item) map[int]bool {
	wanted := map[int]bool{}
	for _, item := range items {
		if p, alive := table[item.PID]; item.Kind == kindProcess && alive && p.start == item.Start {
			wanted[item.PID] = true
		}
	}
	for pid := range table {
		if !wanted[pid] && carries(pid, EnvName+"="+token) {
			wanted[pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, p := range table {
			if !wanted[pid] && wanted[p.ppid] {
				wanted[pid], grown = true, true
			}
		}
	}
	return wanted
}
