package embedded_test

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gotest.tools/v3/assert"

	"deadwire/harness/pg/repository"
)

// the installation that the repository serves
const (
	major     = 15
	installed = "/usr/lib/postgresql/15"
)

// served is a repository of what is installed, with something wrong in it.
type served struct {
	*httptest.Server
	jar  []byte
	hits atomic.Int32 // requests for the artefact

	// what goes wrong; each nil or false: nothing
	sum   func() string
	serve func(http.ResponseWriter, []byte)
	none  bool
}

// packed is the same for all tests, since it takes a second or two.
var packed = sync.OnceValues(func() ([]byte, error) { return repository.Pack(context.Background(), installed) })

func newRepository(t *testing.T) *served {
	t.Helper()
	jar, err := packed()
	assert.NilError(t, err)
	r := &served{jar: jar}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *served) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	isSum := strings.HasSuffix(request.URL.Path, ".sha256")
	switch {
	case r.none, isSum && r.sum != nil && r.sum() == "":
		http.NotFound(w, request)
	case isSum && r.sum != nil:
		fmt.Fprint(w, r.sum())
	case isSum:
		fmt.Fprint(w, repository.Sum(r.jar))
	default:
		r.hits.Add(1)
		if r.serve != nil {
			r.serve(w, r.jar)
			return
		}
		_, _ = w.Write(r.jar) // a client that went away is the test's wish
	}
}

// cacheFolder returns a folder that the servers' user can enter, unlike t.TempDir.
func cacheFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dw-embedded-")
	assert.NilError(t, err)
	t.Cleanup(func() { assert.Check(t, os.RemoveAll(dir)) })
	assert.NilError(t, os.Chmod(dir, 0o755))
	return dir
}

// contents lists the files of a cache folder, without locks.
func contents(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	assert.NilError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) != ".lock" {
			found = append(found, path)
		}
		return err
	}))
	return found
}
