// Package janitor removes what a killed run left behind: processes, folders and
// whatever else a run said it owned. It never looks for things by name, and
// never touches what a living run owns. A lease file is authoritative for what
// a run owns, and the kernel's lock on it for whether the run is alive.
package janitor

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// MarkerName is the file in a folder that says which lease owns it; beside a
// folder its name is the folder's with this behind it.
const MarkerName = ".deadwire-owned"

// EnvName is the variable that a lease's processes may carry; see Lease.Env.
const EnvName = "DEADWIRE_LEASE"

const (
	schema    = "deadwire.lease/1"
	suffix    = ".lease"
	dirMode   = 0o700
	fileMode  = 0o600
	dirPrefix = "deadwire"
)

// the kinds that the janitor removes by itself
const (
	kindProcess = "process"
	kindDir     = "dir"
)

// ErrGone says that a process ended before it could be owned.
var ErrGone = fmt.Errorf("process has ended: %w", os.ErrProcessDone)

// header is the first line of a lease file.
type header struct {
	Schema  string    `json:"schema"`
	Token   string    `json:"token"` // random; in markers and environments
	PID     int       `json:"pid"`
	Boot    string    `json:"boot"` // of the machine, and the pid namespace
	Space   string    `json:"space,omitempty"`
	Started time.Time `json:"started"`
}

// Item is one thing that a lease owns.
type Item struct {
	Kind  string `json:"kind"`
	Value string `json:"value,omitempty"` // a path, or what Own was given
	PID   int    `json:"pid,omitempty"`
	Start uint64 `json:"start,omitempty"` // of the process, in the system's own ticks
}

// Lease records what a run owns while it lives. It is safe for concurrent use.
type Lease struct {
	path  string
	token string

	mu      sync.Mutex
	file    *os.File // holds the lock; nil after Release
	markers []string
}

// DefaultRoot returns where leases live when nothing else is said: in the
// user's cache folder, or without one in a folder of the user's own under the
// system's folder for temporary files.
func DefaultRoot() string {
	if cache, err := os.UserCacheDir(); err == nil {
		return filepath.Join(cache, dirPrefix, "leases")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("%s-%d", dirPrefix, os.Getuid()), "leases")
}

// Acquire creates a lease under root (empty: DefaultRoot), locked until Release
// or until this process dies in whatever way.
func Acquire(root string) (*Lease, error) {
	root, err := prepare(root)
	if err != nil {
		return nil, err
	}
	token := rand.Text()
	head := header{Schema: schema, Token: token, PID: os.Getpid(), Boot: bootID(), Space: pidSpace(), Started: time.Now().UTC()}
	// Created under a name that no sweep looks at, and renamed once locked: a
	// lease is never seen without its lock.
	file, err := os.CreateTemp(root, newPrefix()+"*")
	if err != nil {
		return nil, fmt.Errorf("create lease: %w", err)
	}
	path := filepath.Join(root, token+suffix)
	l := &Lease{path: path, token: token, file: file}
	err = lock(file)
	if err == nil {
		err = l.append(head)
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return nil, fmt.Errorf("create lease: %w", errors.Join(err, file.Close(), os.Remove(file.Name())))
	}
	return l, nil
}

// newPrefix begins the name of a lease that this process has not finished; by it a
// sweep sees whether the process lives.
func newPrefix() string { return fmt.Sprintf("new-%s-%d-", spaceNumber(), os.Getpid()) }

// spaceNumber is pidSpace's number, fit for a file's name: "pid:[4026531836]".
func spaceNumber() string { return strings.Trim(pidSpace(), "pid:[]") }

// prepare makes the root and refuses one that another user could write to: a
// forged lease would make us kill and delete on that user's behalf.
func prepare(root string) (string, error) {
	if root == "" {
		root = DefaultRoot()
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return "", fmt.Errorf("find lease folder: %w", err)
	}
	if err := os.MkdirAll(root, dirMode); err != nil {
		return "", fmt.Errorf("create lease folder: %w", err)
	}
	var stat unix.Stat_t
	if err := unix.Stat(root, &stat); err != nil {
		return "", fmt.Errorf("look at lease folder %s: %w", root, err)
	}
	if int(stat.Uid) != os.Geteuid() || stat.Mode&0o022 != 0 {
		return "", fmt.Errorf("use lease folder %s: others may write to it: chmod 700 it, or choose another", root)
	}
	return root, nil
}

func lock(file *os.File) error {
	return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

// unlock closes a locked file. The lock is taken back expressly: a process that is
// being forked at this moment has a copy of the descriptor until its exec, and
// closing ours alone would leave the file locked for as long.
func unlock(file *os.File) error {
	return errors.Join(unix.Flock(int(file.Fd()), unix.LOCK_UN), file.Close())
}

// Env returns NAME=VALUE for the environment of the run's processes. A sweep
// also ends processes that carry it, so that a worker whose parents all died is
// found although nobody recorded it.
func (l *Lease) Env() string { return EnvName + "=" + l.token }

// OwnProcess records a process, so that it ends should we be killed. Its
// identity is pid and start time, so that a later process with the same pid is
// never taken for it. If it has ended already the error is ErrGone.
func (l *Lease) OwnProcess(pid int) error {
	start, err := startTicks(pid)
	if err != nil {
		return fmt.Errorf("own process %d: %w", pid, err)
	}
	return l.own(Item{Kind: kindProcess, PID: pid, Start: start})
}

// OwnDir records a folder, and marks it by a file inside, so that it is removed
// with its content should we be killed. A folder that does not exist yet, since
// a program such as initdb wants to make it, is marked by a file beside it.
func (l *Lease) OwnDir(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("own folder: %w", err)
	}
	marker := filepath.Join(path, MarkerName)
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		marker = path + MarkerName
	}
	file, err := os.OpenFile(marker, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return fmt.Errorf("own folder: %w", err)
	}
	_, err = file.WriteString(l.token + "\n")
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("own folder: %w", errors.Join(err, os.Remove(marker)))
	}
	l.mu.Lock()
	l.markers = append(l.markers, marker)
	l.mu.Unlock()
	return l.own(Item{Kind: kindDir, Value: path})
}

// Own records a thing of any other kind, such as a container. A sweep hands it
// to the Remover of its kind.
func (l *Lease) Own(kind, value string) error {
	if kind == kindProcess || kind == kindDir {
		return fmt.Errorf("own %s %s: this kind has a method of its own", kind, value)
	}
	return l.own(Item{Kind: kind, Value: value})
}

func (l *Lease) own(item Item) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return fmt.Errorf("own %s: %w", item.Kind, os.ErrClosed)
	}
	if err := l.append(item); err != nil {
		return fmt.Errorf("own %s: %w", item.Kind, err)
	}
	return nil
}

// append writes one line in one call. It is not synced: the page cache outlives
// our own death, and processes do not outlive the machine's.
func (l *Lease) append(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(line, '\n'))
	return err
}

// Release ends the lease in good order: the run has removed what it owned, or
// keeps it on purpose. It may be repeated.
func (l *Lease) Release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	var errs []error
	for _, marker := range l.markers {
		if err := os.Remove(marker); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	// Removed before it is unlocked: nobody may sweep a lease in good order.
	errs = append(errs, os.Remove(l.path), unlock(l.file))
	l.file = nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("release lease: %w", err)
	}
	return nil
}

// read returns what a lease file says. A torn last line is left out: its write
// was cut short, so that nothing was begun on the strength of it.
func read(r io.Reader) (header, []Item, error) {
	var head header
	var items []Item
	lines := bufio.NewScanner(r)
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &head) != nil || head.Schema != schema {
		return head, nil, fmt.Errorf("lease without a header of %s", schema)
	}
	for lines.Scan() {
		var item Item
		if json.Unmarshal(bytes.TrimSpace(lines.Bytes()), &item) == nil {
			items = append(items, item)
		}
	}
	return head, items, lines.Err()
}
