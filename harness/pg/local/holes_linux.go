package local

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// copyContent copies the parts of a file that are not holes (lseek(2), SEEK_DATA).
func copyContent(to, from *os.File, size int64) error {
	for at := int64(0); at < size; {
		data, err := from.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // a hole up to the end
			break
		}
		if err != nil {
			return err
		}
		if at, err = from.Seek(data, unix.SEEK_HOLE); err != nil {
			return err
		}
		if err := copyPart(to, from, data, at-data); err != nil {
			return err
		}
	}
	return to.Truncate(size)
}

func copyPart(to, from *os.File, offset, length int64) error {
	_, fromErr := from.Seek(offset, io.SeekStart)
	_, toErr := to.Seek(offset, io.SeekStart)
	if err := errors.Join(fromErr, toErr); err != nil {
		return err
	}
	_, err := io.CopyN(to, from, length)
	return err
}
