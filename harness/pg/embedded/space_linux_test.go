package embedded_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestNoSpaceIsTold(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	t.Parallel()
	r, small := newRepository(t), filepath.Join(cacheFolder(t), "small")
	assert.NilError(t, os.Mkdir(small, 0o755))
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=2m,mode=755"); err != nil {
		t.Skip("needs the right to mount: ", err)
	}
	t.Cleanup(func() { assert.Check(t, syscall.Unmount(small, 0)) })
	err := provider(r, small, nil).Prepare(t.Context())
	assert.ErrorContains(t, err, "no space left on device")
	assert.Check(t, is.Len(contents(t, small), 0))
}
