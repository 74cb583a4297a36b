package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// blockBytes is the grain of holes.
const blockBytes = 64 << 10

// thinLogs makes the write-ahead log of a data folder sparse: of the 16 MB that
// initdb fills with zeros only the part with records has to be copied each time.
func thinLogs(dataDir string) error {
	logs, err := filepath.Glob(filepath.Join(dataDir, "pg_wal", "0*"))
	if err != nil {
		return err
	}
	for _, path := range logs {
		if err := thin(path); err != nil {
			return fmt.Errorf("thin out %s: %w", path, err)
		}
	}
	return nil
}

// thin writes a file anew without its blocks of zeros. The owner is root or
// ourselves afterwards, which a cached file may be.
func thin(path string) (err error) {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := os.OpenFile(path+".thin", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(copyNonZero(to, from), to.Close()); err != nil {
		return err
	}
	// Removed first: ext4 writes a file out to disk that replaces another one.
	return errors.Join(os.Remove(path), os.Rename(path+".thin", path))
}

func copyNonZero(to *os.File, from io.Reader) error {
	block, zeros, size := make([]byte, blockBytes), make([]byte, blockBytes), int64(0)
	for {
		n, err := io.ReadFull(from, block)
		if n > 0 && !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := to.WriteAt(block[:n], size); err != nil {
				return err
			}
		}
		size += int64(n)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return to.Truncate(size)
		case err != nil:
			return err
		}
	}
}
