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

// Locked reports whether the run in dir is still going on in some process.
func Locked(dir string) bool {
	file, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return false
	}
	defer file.Close()
	// Shared, so that two that look at the same time do not see each other.
	return errors.Is(unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}
