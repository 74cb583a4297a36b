package rundir

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const lockName = "lock"

// lock takes the run's lock. It is a flock, which the kernel drops when its
// holder dies in whatever way; the descriptor is close-on-exec, so that no
// process of the subject keeps a dead run locked.
func lock(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, wrap("lock", path, err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, wrap("lock", path, errors.Join(err, file.Close()))
	}
	return file, nil
}

// unlock closes a locked file. The lock is taken back expressly: a process that is
// being forked at this moment has a copy of the descriptor until its exec, and
// closing ours alone would leave the run locked for as long.
func unlock(file *os.File) error {
	return errors.Join(unix.Flock(int(file.Fd()), unix.LOCK_UN), file.Close())
}

// Locked reports whether the run in dir is still going on in some process.
func Locked(dir string) bool {
	file, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return false
	}
	defer func() { _ = unlock(file) }() // nothing was written
	// Shared, so that two that look at the same time do not see each other.
	return errors.Is(unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}
