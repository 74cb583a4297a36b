package rundir

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
)

const (
	dirMode  = 0o700 // a run holds what the subject printed
	fileMode = 0o600
)

// WriteFile writes data to path by way of a temporary file and a rename, so
// that a reader sees the old content or the new, never a part. The error is an
// *Error.
func WriteFile(path string, data []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return wrap("write", path, err)
	}
	_, err = temp.Write(data)
	// Synced, since a full disk may only show itself there.
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temp.Name()))
	}
	return wrap("write", path, err)
}

// WriteJSON writes v as indented JSON with a newline at its end, atomically.
func WriteJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return wrap("encode", path, err)
	}
	return WriteFile(path, append(data, '\n'))
}

// link points the symbolic link at path to target, replacing it atomically.
func link(path, target string) error {
	fresh := path + "." + shortID()
	if err := os.Symlink(target, fresh); err != nil {
		return wrap("link", path, err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return wrap("link", path, errors.Join(err, os.Remove(fresh)))
	}
	return nil
}
