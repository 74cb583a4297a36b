package pg

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// memoryDir is where Linux keeps shared memory: files there are never written to a disk.
const memoryDir = "/dev/shm"

// memoryMin is how much room and how much free memory, in bytes, make it worth
// keeping clusters there: a run's clusters and databases take a tenth of it.
const memoryMin = 4 << 30

// TempDirs returns the folders in which clusters may be made, the best first: memory
// where there is plenty, since a run makes and drops some ten thousand files, then
// the usual ones. A TMPDIR that is set is always the first.
func TempDirs() []string {
	dirs := []string{os.TempDir(), "/tmp", "/var/tmp"}
	if os.Getenv("TMPDIR") == "" && plenty(memoryDir, memoryMin) {
		dirs = slices.Insert(dirs, 0, memoryDir)
	}
	return dirs
}

// SweepDirs returns the folders in which an earlier run may have made clusters.
func SweepDirs() []string {
	dirs := append(TempDirs(), memoryDir)
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// memAvailable reads MemAvailable, in bytes, out of /proc/meminfo's text.
func memAvailable(meminfo string) uint64 {
	for line := range strings.Lines(meminfo) {
		var kib uint64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}
