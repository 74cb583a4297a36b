package catalogue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"unicode/utf8"

	"deadwire/pipeline/evidence"
	"deadwire/pipeline/fetch"
)

// Reasons for which a file of a folder is no card.
const (
	SkipUnreadable  = "unreadable"
	SkipNotRegular  = "not-regular" // a device, socket or pipe
	SkipEmpty       = "zero-byte"
	SkipTooLarge    = "too-large"
	SkipNotImage    = "not-an-image"
	SkipName        = "name-not-utf8"
	SkipLoop        = "symlink-loop"
	SkipDangling    = "symlink-dangling"
	SkipRepeat      = "symlink-repeat" // a folder that was walked already
	SkipUnavailable = "unavailable"    // over HTTP: the source did not give it
	// and the classes of evidence.DecodeError
)

// File is what was found in a folder or listing: a file that may be a card, or the
// reason why it is none.
type File struct {
	Name   string // slash-separated path below the source
	Stamp  string // changes when the content does; "" when only reading can tell
	Skip   string // a reason, "" for none
	Detail string
}

func (f File) skipped(reason string, detail any) File {
	f.Skip, f.Detail = reason, fmt.Sprint(detail)
	return f
}

// Walk finds all files below a folder, each once, in order of their paths. Links are
// followed; a folder is walked once, however many links lead to it. What cannot be
// looked at is a File with a reason. Only the context ends it early.
func Walk(ctx context.Context, root string) iter.Seq[File] {
	return func(yield func(File) bool) {
		w := walker{ctx: ctx, root: root, walked: map[string]bool{}, yield: yield}
		w.folder("", nil)
	}
}

type walker struct {
	ctx    context.Context
	root   string
	walked map[string]bool // by real path
	yield  func(File) bool
}

// folder reports whether to go on; above are the real paths of the folders that led here
func (w *walker) folder(name string, above []string) bool {
	at := filepath.Join(w.root, filepath.FromSlash(name))
	this := File{Name: path.Join(name, ".")}
	real, err := filepath.EvalSymlinks(at)
	if err != nil {
		return w.yield(this.skipped(SkipUnreadable, reasonOf(err)))
	}
	if w.walked[real] {
		for _, a := range above {
			if a == real {
				return w.yield(this.skipped(SkipLoop, "leads back to "+path.Join(relative(w.root, real), ".")))
			}
		}
		return w.yield(this.skipped(SkipRepeat, "the same folder as another"))
	}
	w.walked[real] = true
	entries, err := os.ReadDir(at)
	if err != nil && !w.yield(this.skipped(SkipUnreadable, reasonOf(err))) {
		return false
	}
	for _, entry := range entries {
		if w.ctx.Err() != nil || !w.entry(path.Join(name, entry.Name()), entry, append(above[:len(above):len(above)], real)) {
			return false
		}
	}
	return true
}

func relative(root, to string) string {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return to
	}
	below, err := filepath.Rel(real, to)
	if err != nil {
		return to
	}
	return filepath.ToSlash(below)
}

func (w *walker) entry(name string, entry fs.DirEntry, above []string) bool {
	f := File{Name: name}
	if !utf8.ValidString(name) {
		f.Name = fmt.Sprintf("%q", name)
		return w.yield(f.skipped(SkipName, "its name is no UTF-8"))
	}
	info, err := os.Stat(filepath.Join(w.root, filepath.FromSlash(name)))
	switch {
	case errors.Is(err, syscall.ELOOP):
		return w.yield(f.skipped(SkipLoop, reasonOf(err)))
	case errors.Is(err, fs.ErrNotExist) && entry.Type()&fs.ModeSymlink != 0:
		return w.yield(f.skipped(SkipDangling, reasonOf(err)))
	case err != nil:
		return w.yield(f.skipped(SkipUnreadable, reasonOf(err)))
	case info.IsDir():
		return w.folder(name, above)
	}
	f.Stamp = fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
	switch {
	case !info.Mode().IsRegular():
		return w.yield(f.skipped(SkipNotRegular, info.Mode().Type()))
	case info.Size() == 0:
		return w.yield(f.skipped(SkipEmpty, ""))
	case info.Size() > fetch.MaxBody:
		return w.yield(f.skipped(SkipTooLarge, fmt.Sprintf("%d bytes are over the limit of %d", info.Size(), fetch.MaxBody)))
	}
	return w.yield(f)
}

// reasonOf leaves the path out of an error: it is told already
func reasonOf(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err
	}
	return err
}

// headSize is what evidence.IsImage looks at
const headSize = 16

// Read returns a file's bytes, or why it is no card. It reads the whole of it only
// when its beginning is an image's.
func (s Source) Read(f File) ([]byte, File) {
	file, err := os.Open(filepath.Join(s.Dir(), filepath.FromSlash(f.Name)))
	if err != nil {
		return nil, f.skipped(SkipUnreadable, reasonOf(err))
	}
	defer file.Close()
	head := make([]byte, headSize)
	n, err := file.ReadAt(head, 0)
	switch {
	case n == 0 && err != nil:
		return nil, f.skipped(SkipUnreadable, reasonOf(err))
	case !evidence.IsImage(head[:n]):
		return nil, f.skipped(SkipNotImage, "")
	}
	data, err := readAtMost(file, fetch.MaxBody)
	if err != nil {
		return nil, f.skipped(SkipUnreadable, reasonOf(err))
	}
	return data, f
}
