package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// Error says that the record of a run could not be kept, where, and what the
// user can do about it.
type Error struct {
	Op   string // what was tried, such as "create run folder"
	Path string
	Err  error
}

// SchemaError says that a stored file is in a form which this version cannot read.
type SchemaError struct {
	Schema string   // of the file
	Known  []string // what this version reads
}

// Error implements error.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("its schema is %q, and this version reads %s", e.Schema, strings.Join(e.Known, " and "))
}

// Error implements error.
func (e *Error) Error() string {
	cause := e.Err
	// A PathError repeats the path that stands in front already.
	if inner, ok := errors.AsType[*fs.PathError](cause); ok {
		cause = inner.Err
	}
	return fmt.Sprintf("%s %s: %v", e.Op, e.Path, cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Mend returns one sentence on how to get past the error.
func (e *Error) Mend() string {
	schema, other := errors.AsType[*SchemaError](e.Err)
	switch {
	case other && schema.Schema != "":
		return "look at it with the version of deadwire that wrote it"
	case errors.Is(e.Err, syscall.ENOSPC), errors.Is(e.Err, syscall.EDQUOT):
		return "free space on that file system, or choose another folder with --out"
	case errors.Is(e.Err, fs.ErrPermission), errors.Is(e.Err, syscall.EROFS):
		return "make the folder writable, or choose another one with --out"
	case errors.Is(e.Err, syscall.ENOTDIR), errors.Is(e.Err, syscall.EEXIST):
		return "something that is not a folder is in the way: move it, or choose another folder with --out"
	case errors.Is(e.Err, fs.ErrNotExist) && strings.HasPrefix(e.Op, "create"):
		return "choose another folder with --out"
	case errors.Is(e.Err, fs.ErrNotExist):
		return "name a run by its folder, by a part of its name that no other has, or as latest or latest-failed"
	default:
		return "choose another folder with --out"
	}
}

func wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Path: path, Err: err}
}
