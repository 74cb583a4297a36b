package local

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// copyFile copies a file and returns its size. It calls the kernel itself: a
// clone has a thousand small files, and package os asks the kernel four times
// as often. copy_file_range(2) shares blocks where the file system can.
func copyFile(source, target string, as *account) (int64, error) {
	size, err := copyInKernel(source, target, as)
	if errors.Is(err, errNoCopyRange) {
		return copyPortably(source, target, as)
	}
	return size, err
}

var errNoCopyRange = errors.New("copy_file_range does not work between these folders")

func copyInKernel(source, target string, as *account) (int64, error) {
	from, err := unix.Open(source, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: source, Err: err}
	}
	defer func() { _ = unix.Close(from) }()
	to, err := unix.Open(target, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return 0, &os.PathError{Op: "create", Path: target, Err: err}
	}
	if as.switched {
		err = unix.Fchown(to, as.uid, as.gid)
	}
	var stat unix.Stat_t
	if err == nil {
		err = unix.Fstat(from, &stat)
	}
	if err == nil {
		err = copyData(to, from, stat)
	}
	if err := errors.Join(err, unix.Close(to)); err != nil {
		return 0, &os.PathError{Op: "copy", Path: target, Err: err}
	}
	return stat.Size, nil
}

// statBlockBytes is the unit of st_blocks, see stat(3type).
const statBlockBytes = 512

// copyData copies a file's content without its holes.
func copyData(to, from int, stat unix.Stat_t) error {
	if stat.Blocks*statBlockBytes >= stat.Size {
		return copyPart(to, from, 0, stat.Size)
	}
	for at := int64(0); at < stat.Size; {
		data, err := unix.Seek(from, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // a hole up to the end
			break
		}
		if err != nil {
			return err
		}
		if at, err = unix.Seek(from, data, unix.SEEK_HOLE); err != nil {
			return err
		}
		if err := copyPart(to, from, data, at-data); err != nil {
			return err
		}
	}
	return unix.Ftruncate(to, stat.Size)
}

func copyPart(to, from int, offset, length int64) error {
	readAt, writeAt := offset, offset
	for end := offset + length; readAt < end; {
		n, err := unix.CopyFileRange(from, &readAt, to, &writeAt, int(end-readAt), 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EXDEV), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
			return errNoCopyRange
		case err != nil:
			return err
		case n == 0:
			return nil // the source became shorter: the count of bytes will tell
		}
	}
	return nil
}
