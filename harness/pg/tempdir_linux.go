package pg

import (
	"os"

	"golang.org/x/sys/unix"
)

// plenty reports whether dir is in memory and has that many bytes of room, while as
// many are free in the machine. One that cannot be written to has none.
func plenty(dir string, bytes uint64) bool {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil || fs.Type != unix.TMPFS_MAGIC || fs.Bavail*uint64(fs.Bsize) < bytes {
		return false
	}
	return unix.Access(dir, unix.W_OK|unix.X_OK) == nil && available() >= bytes
}

// available returns the memory that can be had without swapping, in bytes (proc(5),
// MemAvailable); 0 when the kernel does not say.
func available() uint64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	return memAvailable(string(text))
}
