package pg

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestATMPDIRThatIsSetComesFirst(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	assert.Equal(t, TempDirs()[0], dir)
	assert.Check(t, is.Contains(SweepDirs(), memoryDir))
	assert.Check(t, is.Contains(SweepDirs(), dir))
}

func TestMemoryIsUsedOnlyWhereThereIsPlenty(t *testing.T) {
	t.Setenv("TMPDIR", "")
	assert.Assert(t, !plenty(t.TempDir()+"/absent", 1))
	assert.Assert(t, !plenty(memoryDir, 1<<60))
	assert.Equal(t, TempDirs()[0] == memoryDir, plenty(memoryDir, memoryMin))
}

func TestMemAvailableIsRead(t *testing.T) {
	assert.Equal(t, memAvailable("MemTotal:  100 kB\nMemAvailable:   2048 kB\n"), uint64(2048<<10))
	assert.Equal(t, memAvailable("MemTotal:  100 kB\n"), uint64(0))
}
