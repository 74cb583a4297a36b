package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Error says that the record of a run could not be kept, where, and what the
// user can do about it.
type Error struct {
	Op   string // what was tried, such as "create run folder"
	Path string
	Err  error
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
	switch {
	case errors.Is(e.Err, syscall.ENOSPC), errors.Is(e.Err, syscall.EDQUOT):
		return "free space on that file system, or choose another folder with --out"
	case errors.Is(e.Err, fs.ErrPermission), errors.Is(e.Err, syscall.EROFS):
		return "make the folder writable, or choose another one with --out"
	case errors.Is(e.Err, syscall.ENOTDIR), errors.Is(e.Err, syscall.EEXIST):
		return "something that is not a folder is in the way: move it, or choose another folder with --out"
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
