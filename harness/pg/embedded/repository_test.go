package embedded_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gotest.tools/v3/assert"
)

// major is that of the installed binaries which the repository serves.
const major = 15

// repository is a Maven repository with one artefact, made of what is installed.
type repository struct {
	*httptest.Server
	jar  []byte
	hits atomic.Int32 // requests for the jar

	// what goes wrong; each nil or false: nothing
	sum   func() string
	serve func(http.ResponseWriter, []byte)
	none  bool
}

var artefact = sync.OnceValues(makeJar) // takes a second or two

func newRepository(t *testing.T) *repository {
	t.Helper()
	jar, err := artefact()
	assert.NilError(t, err)
	r := &repository{jar: jar}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *repository) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	sum := sha256.Sum256(r.jar)
	switch {
	case r.none || !strings.HasPrefix(request.URL.Path, "/io/zonky/test/postgres/embedded-postgres-binaries-"):
		http.NotFound(w, request)
	case strings.HasSuffix(request.URL.Path, ".jar.sha256"):
		text := hex.EncodeToString(sum[:])
		if r.sum != nil {
			text = r.sum()
		}
		if text == "" {
			http.NotFound(w, request)
			return
		}
		fmt.Fprint(w, text)
	default:
		r.hits.Add(1)
		if r.serve != nil {
			r.serve(w, r.jar)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(r.jar)))
		_, _ = w.Write(r.jar) // a client that went away is the test's wish
	}
}

// makeJar packs the installed server as zonkyio does: a zip with a tar.xz in it.
func makeJar() ([]byte, error) {
	installed := fmt.Sprintf("/usr/lib/postgresql/%d", major)
	if _, err := os.Stat(installed); err != nil {
		return nil, err
	}
	packed, err := exec.Command("tar", "-C", installed, "-c", "-I", "xz -0", "bin/postgres", "bin/initdb", "bin/pg_ctl", "lib").Output()
	if err != nil {
		return nil, fmt.Errorf("tar: %w", err)
	}
	var jar bytes.Buffer
	archive := zip.NewWriter(&jar)
	entry, err := archive.CreateHeader(&zip.FileHeader{Name: "postgres-linux-x86_64.txz", Method: zip.Store})
	if err != nil {
		return nil, err
	}
	if _, err := entry.Write(packed); err != nil {
		return nil, err
	}
	err = archive.Close()
	return jar.Bytes(), err
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
