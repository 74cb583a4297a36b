package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"deadwire/harness/pg"
)

const (
	homePrefix = "deadwire-pg-"
	lockName   = "lock"       // flocked by us for as long as the home is in use
	recordName = "postmaster" // JSON of the process that runs in it
	// socketDirBytesMax keeps the socket's path below the shortest sun_path of
	// the systems that we run on (104 on macOS, 108 on Linux), with room for
	// "/.s.PGSQL.65535" and the terminating zero.
	socketDirBytesMax = 104 - 16
	// strayAge is when a home without a lock counts as left over: making one takes milliseconds.
	strayAge = 10 * time.Minute
)

// home is the folder in which one server lives.
type home struct {
	dir  string
	lock *os.File
	temp bool // made by us: goes away as a whole
}

func (h *home) data() string   { return filepath.Join(h.dir, "data") }
func (h *home) socket() string { return filepath.Join(h.dir, "socket") }

// newHome makes a home inside dir if the account can live there, else in a
// private folder under the system's temporary one: a run's own folder is often
// closed to others, and its path too long for a socket. dir may be "".
func newHome(dir string, as *account) (*home, error) {
	if dir != "" && as.reaches(dir) && fitsSocket(dir) {
		return furnished(&home{dir: dir}, as)
	}
	base, err := tempBase(as)
	if err != nil {
		return nil, err
	}
	dir, err = os.MkdirTemp(base, homePrefix)
	if err != nil {
		return nil, fmt.Errorf("make server folder: %w", err)
	}
	return furnished(&home{dir: dir, temp: true}, as)
}

func furnished(h *home, as *account) (*home, error) {
	if err := h.furnish(as); err != nil {
		return nil, errors.Join(err, h.remove())
	}
	return h, nil
}

// fitsSocket reports whether clients can name a socket in a home at dir. They
// take a path with a comma for a list of hosts.
func fitsSocket(dir string) bool {
	return len(filepath.Join(dir, "socket")) <= socketDirBytesMax && !strings.Contains(dir, ",")
}

// tempBase returns the first folder for temporary files that the account
// reaches and whose path is short enough.
func tempBase(as *account) (string, error) {
	for _, base := range pg.TempDirs() {
		if as.reaches(base) && fitsSocket(filepath.Join(base, homePrefix+"4294967295")) {
			return base, nil
		}
	}
	return "", fmt.Errorf("find a temporary folder: user %s may not enter %s, /tmp or /var/tmp, or their paths do not suit a socket", as.name, os.TempDir())
}

// furnish locks the home and makes its socket folder. The lock file gets its
// name when it is locked already, so that no sweep can take it for a stray one.
func (h *home) furnish(as *account) error {
	if h.temp {
		if err := as.own(h.dir); err != nil {
			return err
		}
	}
	file, err := os.CreateTemp(h.dir, lockName+"-")
	if err != nil {
		return fmt.Errorf("lock server folder: %w", err)
	}
	h.lock = file
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock server folder: %w", err)
	}
	if err := os.Rename(file.Name(), filepath.Join(h.dir, lockName)); err != nil {
		return fmt.Errorf("lock server folder: %w", err)
	}
	if err := os.Mkdir(h.socket(), 0o700); err != nil {
		return fmt.Errorf("make socket folder: %w", err)
	}
	return as.own(h.socket())
}

// register tells the owner, who may be nil, of the folders that are ours.
func (h *home) register(owner pg.Owner) error {
	if owner == nil {
		return nil
	}
	if h.temp {
		return owner.OwnDir(h.dir)
	}
	return errors.Join(owner.OwnDir(h.data()), owner.OwnDir(h.socket()))
}

// remove takes away what newHome and the server made, and lets go of the lock.
func (h *home) remove() error {
	paths := []string{h.dir}
	if !h.temp {
		paths = []string{h.data(), h.socket(), filepath.Join(h.dir, recordName), filepath.Join(h.dir, lockName)}
	}
	var errs []error
	for _, path := range paths {
		errs = append(errs, os.RemoveAll(path))
	}
	if h.lock != nil {
		errs = append(errs, h.lock.Close())
		h.lock = nil
	}
	return errors.Join(errs...)
}

// record notes which process runs in the home, for a sweep after our death.
func (h *home) record(p identity) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(h.dir, recordName), text, 0o600); err != nil {
		return fmt.Errorf("record postmaster: %w", err)
	}
	return nil
}

// sweep removes the homes that killed runs left under folders for temporary files. A
// home is left over when its lock is free; only files of our own user count.
func sweep(ctx context.Context, as *account) error {
	var dirs []string
	for _, base := range pg.SweepDirs() {
		found, err := filepath.Glob(filepath.Join(base, homePrefix+"*"))
		if err != nil {
			return err
		}
		dirs = append(dirs, found...)
	}
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, sweepHome(ctx, dir, as))
	}
	return errors.Join(errs...)
}

func sweepHome(ctx context.Context, dir string, as *account) error {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return sweepStray(dir, as)
	}
	h := &home{dir: dir, lock: lock, temp: true}
	if !ours(lock.Stat()) || syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return lock.Close() // someone else's, or in use
	}
	if err := h.endLeftover(ctx); err != nil {
		return errors.Join(err, lock.Close())
	}
	return h.remove()
}

// endLeftover ends the postmaster that a killed run left in the home.
func (h *home) endLeftover(ctx context.Context) error {
	path := filepath.Join(h.dir, recordName)
	if text, err := os.ReadFile(path); err == nil && ours(os.Lstat(path)) {
		var p identity
		if err := json.Unmarshal(text, &p); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if err := end(ctx, p); err != nil {
			return err
		}
	}
	return releaseSharedMemory(ctx, h.data())
}

// sweepStray removes a folder that lost its lock file, or never got it.
func sweepStray(dir string, as *account) error {
	info, err := os.Lstat(dir)
	if err != nil || !(ownedBy(as.uid, info) || ownedBy(os.Geteuid(), info)) || time.Since(info.ModTime()) < strayAge {
		return nil
	}
	return os.RemoveAll(dir)
}

func ours(info os.FileInfo, err error) bool {
	return err == nil && ownedBy(os.Geteuid(), info)
}

func ownedBy(uid int, info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == uid
}
