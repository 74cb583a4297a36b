package rundir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The names in a root folder and in a run's folder.
const (
	DefaultRoot  = ".deadwire"
	ManifestName = "manifest.json"
	VerdictName  = "verdict.json"
	EventsName   = "events.jsonl"
	SubjectName  = "subject.log"
	PostgresName = "postgres.log"
	runsName     = "runs"
	casesName    = "cases"
	latestName   = "latest"
	failedName   = "latest-failed"
)

// ManifestSchema is the schema of manifest.json.
const ManifestSchema = "deadwire.manifest/1"

// nameLayout makes names sort in the order of their start.
const nameLayout = "2006-01-02T15-04-05.000Z"

// Manifest says what a run is, from its first moment on.
type Manifest struct {
	Schema   string            `json:"schema"`
	Command  []string          `json:"command"` // passwords masked
	Version  string            `json:"version"`
	Versions map[string]string `json:"versions,omitempty"` // of PostgreSQL, Go, the kernel, …
	Seed     string            `json:"seed"`
	PID      int               `json:"pid"`
	Started  time.Time         `json:"started"` // UTC
}

// Options says how to begin a run's folder.
type Options struct {
	Root     string            // folder of all runs; default DefaultRoot
	Command  []string          // default os.Args
	Version  string            // of deadwire
	Versions map[string]string // of what it works with
	Seed     string
	Started  time.Time // default now
	Keep     int       // finished runs that stay, newest first; default KeepDefault, negative: all
}

func (o Options) withDefaults() Options {
	if o.Root == "" {
		o.Root = DefaultRoot
	}
	if o.Command == nil {
		o.Command = os.Args
	}
	if o.Started.IsZero() {
		o.Started = time.Now()
	}
	if o.Keep == 0 {
		o.Keep = KeepDefault
	}
	return o
}

// Dir is the folder of a run that is going on. It is locked until Finish or
// Close. Methods that make case folders are safe for concurrent use.
type Dir struct {
	root, path string
	keep       int
	lock       *os.File
	manifest   Manifest
}

// Create makes and locks a new run folder with its manifest, and points the
// link latest at it. Errors are *Error: a disk that is full or a root that
// cannot be written ends here, before anything was started.
func Create(o Options) (*Dir, error) {
	o = o.withDefaults()
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return nil, wrap("find folder", o.Root, err)
	}
	runs := filepath.Join(root, runsName)
	if err := os.MkdirAll(runs, dirMode); err != nil {
		return nil, wrap("create run folder", runs, err)
	}
	if err := ignore(root); err != nil {
		return nil, err
	}
	name := o.Started.UTC().Format(nameLayout) + "-" + shortID()
	d := &Dir{root: root, path: filepath.Join(runs, name), keep: o.Keep}
	d.manifest = Manifest{
		Schema: ManifestSchema, Command: MaskAll(o.Command), Version: o.Version, Versions: o.Versions,
		Seed: o.Seed, PID: os.Getpid(), Started: o.Started.UTC(),
	}
	if err := d.begin(); err != nil {
		return nil, errors.Join(err, d.abandon())
	}
	return d, nil
}

func (d *Dir) begin() (err error) {
	if err := os.Mkdir(d.path, dirMode); err != nil {
		return wrap("create run folder", d.path, err)
	}
	if d.lock, err = lock(d.path); err != nil {
		return err
	}
	if err := WriteJSON(d.File(ManifestName), d.manifest); err != nil {
		return err
	}
	return link(filepath.Join(d.root, latestName), filepath.Join(runsName, d.Name()))
}

// abandon takes back a folder that could not be begun.
func (d *Dir) abandon() error {
	return errors.Join(d.Close(), os.RemoveAll(d.path))
}

// ignore keeps the runs out of the user's version control.
func ignore(root string) error {
	path := filepath.Join(root, ".gitignore")
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	return WriteFile(path, []byte("*\n"))
}

// Path returns the absolute path of the folder.
func (d *Dir) Path() string { return d.path }

// Root returns the absolute path of the folder of all runs.
func (d *Dir) Root() string { return d.root }

// Name returns the run's name, which is the last element of its path.
func (d *Dir) Name() string { return filepath.Base(d.path) }

// Manifest returns what was written at the start.
func (d *Dir) Manifest() Manifest { return d.manifest }

// File returns the path of a file in the folder, such as PostgresName.
func (d *Dir) File(name string) string { return filepath.Join(d.path, name) }

// SetVersions adds versions that only became known after the start, such as
// PostgreSQL's, to the manifest.
func (d *Dir) SetVersions(versions map[string]string) error {
	merged := make(map[string]string, len(versions)+len(d.manifest.Versions))
	for name, version := range d.manifest.Versions {
		merged[name] = version
	}
	for name, version := range versions {
		merged[name] = version
	}
	d.manifest.Versions = merged
	return WriteJSON(d.File(ManifestName), d.manifest)
}

// Case makes the folder of one case and returns its path. A case that runs
// more than once gets a number behind its name: cases/NAME.CASE.2.
func (d *Dir) Case(scenario, name string) (string, error) {
	cases := d.File(casesName)
	if err := os.MkdirAll(cases, dirMode); err != nil {
		return "", wrap("create case folder", cases, err)
	}
	base := filepath.Join(cases, fileName(scenario)+"."+fileName(name))
	return makeNumbered(base)
}

// Finish ends the run: it records what --last-failed needs, points
// latest-failed here if last is not a success, drops old runs and unlocks. The
// first errors of all steps are joined; every step is tried.
func (d *Dir) Finish(last Last) error {
	last.Schema, last.Run = LastSchema, d.Name()
	return errors.Join(WriteJSON(filepath.Join(d.root, lastName), last), d.FinishAside(last.Status))
}

// FinishAside is Finish for a run without cases: what --last-failed would run stays
// as it was.
func (d *Dir) FinishAside(status Status) (err error) {
	if status != Passed {
		err = link(filepath.Join(d.root, failedName), filepath.Join(runsName, d.Name()))
	}
	err = errors.Join(err, d.Close())
	if d.keep > 0 {
		_, pruneErr := Prune(d.root, d.keep, BytesDefault)
		err = errors.Join(err, pruneErr)
	}
	return err
}

// Close unlocks the folder and leaves everything in place. It may be repeated.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	err := unlock(d.lock)
	d.lock = nil
	return wrap("unlock", d.path, err)
}

// fileName makes any scenario's name a single, harmless path element.
func fileName(name string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		default:
			return '_'
		}
	}, name)
	const nameBytesMax = 100 // two of them and a number stay far below NAME_MAX
	return clean[:min(len(clean), nameBytesMax)]
}

func shortID() string {
	id := make([]byte, 3)
	rand.Read(id) // never fails since Go 1.24
	return hex.EncodeToString(id)
}
