package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// copiersMax bounds the files that are copied at the same time. More does not
// help: the work is system calls and page cache.
const copiersMax = 4

// content counts what a folder holds, to tell a whole copy from a part.
type content struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// copyTree copies a folder and gives the copy to the account. The files are
// shared out by a counter: handing each one to a goroutine costs more than
// copying it, since most have a few kilobytes.
func copyTree(source, target string, as *account) (content, error) {
	files, err := makeFolders(source, target, as)
	if err != nil {
		return content{}, fmt.Errorf("copy %s: %w", source, err)
	}
	var next, bytes atomic.Int64
	var copiers errgroup.Group
	for range min(runtime.GOMAXPROCS(0), copiersMax) {
		copiers.Go(func() error {
			for i := next.Add(1) - 1; i < int64(len(files)); i = next.Add(1) - 1 {
				n, err := copyFile(source+files[i], target+files[i], as)
				if err != nil {
					return err
				}
				bytes.Add(n)
			}
			return nil
		})
	}
	if err := copiers.Wait(); err != nil {
		return content{}, fmt.Errorf("copy %s: %w", source, err)
	}
	return content{Files: len(files), Bytes: bytes.Load()}, nil
}

// makeFolders makes the folders of the copy and returns the files, each as its
// path behind source.
func makeFolders(source, target string, as *account) (files []string, err error) {
	return files, filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		below := path[len(source):]
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return errors.Join(os.Mkdir(target+below, 0o700), as.own(target+below))
		case entry.Type().IsRegular():
			files = append(files, below)
			return nil
		default:
			return fmt.Errorf("%s is no regular file", path)
		}
	})
}

// copyPortably copies a file by the standard library, holes as zeros, and
// returns its size.
func copyPortably(source, target string, as *account) (size int64, err error) {
	from, err := os.Open(source)
	if err != nil {
		return 0, err
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	if as.switched {
		err = to.Chown(as.uid, as.gid)
	}
	if err == nil {
		size, err = io.Copy(to, from)
	}
	return size, errors.Join(err, to.Close())
}
