package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

// copiersMax bounds the files that are copied at the same time. More does not
// help: the work is system calls and page cache.
const copiersMax = 4

// sparseBytesMin is the size from which it pays to look for holes: only segments
// of the write-ahead log are as large.
const sparseBytesMin = 1 << 20

// content counts what a folder holds, to tell a whole copy from a part.
type content struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// copyTree copies a folder and gives the copy to the account. The standard
// library copies with copy_file_range(2), which shares the blocks where the
// file system can (btrfs, XFS).
func copyTree(source, target string, as *account) (content, error) {
	var whole content
	var copiers errgroup.Group
	copiers.SetLimit(copiersMax)
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(target, path[len(source):])
		if entry.IsDir() {
			return errors.Join(os.Mkdir(to, 0o700), as.own(to))
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file", path)
		}
		whole.Files++
		whole.Bytes += info.Size()
		copiers.Go(func() error { return copyFile(path, to, info.Size(), as) })
		return nil
	})
	if err := errors.Join(err, copiers.Wait()); err != nil {
		return content{}, fmt.Errorf("copy %s: %w", source, err)
	}
	return whole, nil
}

func copyFile(source, target string, size int64, as *account) error {
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if as.switched {
		err = to.Chown(as.uid, as.gid)
	}
	switch {
	case err != nil || size == 0:
	case size >= sparseBytesMin:
		err = copyContent(to, from, size)
	default:
		_, err = io.Copy(to, from)
	}
	return errors.Join(err, to.Close())
}
