package rundir

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"deadwire/harness/event"
)

const (
	lastName = ".last-run.json"
	// LastSchema is the schema of .last-run.json.
	LastSchema = "deadwire.last/1"
	// KeepDefault is how many finished runs stay.
	KeepDefault = 20
	// BytesDefault is how much finished runs may hold together, in bytes.
	BytesDefault = 2 << 30
	// repeatsMax bounds how often one case may run in one run.
	repeatsMax = 1_000_000
)

// Status is how a run ended, as .last-run.json says it.
type Status string

// The statuses of a run.
const (
	Passed      Status = "passed"
	FailedRun   Status = "failed"
	Interrupted Status = "interrupted"
)

// Last is the record that --last-failed starts from. Cases that were selected
// but never ran count as failed, so that they are not forgotten.
type Last struct {
	Schema string   `json:"schema"`
	Run    string   `json:"run"`
	Status Status   `json:"status"`
	Failed []Failed `json:"failed"`
	// Subject is the absolute path of the binary that was tested in place of the
	// built-in one, empty for none.
	Subject string `json:"subject,omitempty"`
}

// Failed names a case and the seed with which it fails again.
type Failed struct {
	File     string `json:"file,omitempty"` // absolute path of the scenario; empty for a built-in one
	Scenario string `json:"scenario"`
	Case     string `json:"case"`
	Seed     string `json:"seed"`
}

// ReadLast returns the record of the last finished run under root. Without one
// the error is fs.ErrNotExist.
func ReadLast(root string) (Last, error) {
	path := filepath.Join(root, lastName)
	var last Last
	err := ReadJSON(path, &last)
	return last, err
}

// ReadManifest returns the manifest of the run in dir.
func ReadManifest(dir string) (Manifest, error) {
	var m Manifest
	err := ReadJSON(filepath.Join(dir, ManifestName), &m)
	return m, err
}

// ReadJSON reads a JSON file of a stored run. Fields that it does not know, which a
// newer version wrote, are passed over. Errors are *Error.
func ReadJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return wrap("read", path, err)
	}
	return wrap("read", path, json.Unmarshal(data, into))
}

// CheckSchema refuses a file of a stored run whose schema is none of known. Fields
// may be added under the same schema; another one means another reading.
func CheckSchema(path, schema string, known ...string) error {
	if slices.Contains(known, schema) {
		return nil
	}
	return wrap("read", path, &SchemaError{Schema: schema, Known: known})
}

// ReadEvents returns the journal of an attempt, which is stored in dir. A torn last
// line, as a killed run leaves it, is no error.
func ReadEvents(dir string) ([]event.Event, error) {
	path := filepath.Join(dir, EventsName)
	file, err := os.Open(path)
	if err != nil {
		return nil, wrap("read", path, err)
	}
	defer func() { _ = file.Close() }() // opened for reading
	events, err := event.Read(file)
	return events, wrap("read", path, err)
}

// Find returns the folder of a stored run. name is the run's name, a unique
// beginning or end of it, latest, latest-failed, or the path of a run's folder;
// empty means latest.
func Find(root, name string) (string, error) {
	if name == "" {
		name = latestName
	}
	for _, path := range []string{name, filepath.Join(root, name), filepath.Join(root, runsName, name)} {
		if isRun(path) {
			return filepath.EvalSymlinks(path)
		}
	}
	names, err := List(root)
	if err != nil {
		return "", err
	}
	var found []string
	for _, candidate := range names {
		if strings.HasPrefix(candidate, name) || strings.HasSuffix(candidate, name) {
			found = append(found, candidate)
		}
	}
	if len(found) != 1 {
		return "", wrap("find run", filepath.Join(root, runsName, name), fs.ErrNotExist)
	}
	return filepath.Join(root, runsName, found[0]), nil
}

func isRun(path string) bool {
	_, err := os.Stat(filepath.Join(path, ManifestName))
	return err == nil
}

// List returns the names of the stored runs, newest first.
func List(root string) ([]string, error) {
	runs := filepath.Join(root, runsName)
	entries, err := os.ReadDir(runs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap("list runs", runs, err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && isRun(filepath.Join(runs, entry.Name())) {
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	return names, nil
}

// Prune removes all but the keep newest runs under root, and of those all that do
// not fit into bytesMax bytes together, and returns the names of those removed. The
// newest one stays whatever its size. bytesMax 0 means no bound. A run that is still going on is neither removed nor
// counted; nor is the last failed one, since its evidence is still wanted.
// Folders without a manifest are not ours and stay.
func Prune(root string, keep int, bytesMax int64) ([]string, error) {
	names, err := List(root)
	if err != nil {
		return nil, err
	}
	wanted, _ := os.Readlink(filepath.Join(root, failedName))
	var removed []string
	var errs []error
	var used int64
	for _, name := range names {
		path := filepath.Join(root, runsName, name)
		switch {
		case Locked(path) || name == filepath.Base(wanted):
		case keep > 0 && fits(path, &used, bytesMax):
			keep--
		default:
			keep = min(keep, 0) // what is older than a removed one goes too
			errs = append(errs, wrap("remove run", path, os.RemoveAll(path)))
			removed = append(removed, name)
		}
	}
	return removed, errors.Join(errs...)
}

// fits adds a folder's size to used, and reports whether the sum is within bytesMax.
// The first folder always fits.
func fits(path string, used *int64, bytesMax int64) bool {
	first := *used == 0
	_ = filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // what cannot be read is not counted; its removal will say why
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			*used += info.Size()
		}
		return nil
	})
	return first || bytesMax <= 0 || *used <= bytesMax
}

// makeNumbered creates base, or base.2 and so on when it exists.
func makeNumbered(base string) (string, error) {
	path := base
	for n := 2; ; n++ {
		err := os.Mkdir(path, dirMode)
		if err == nil || n == repeatsMax || !errors.Is(err, fs.ErrExist) {
			return path, wrap("create case folder", path, err)
		}
		path = base + "." + strconv.Itoa(n)
	}
}
