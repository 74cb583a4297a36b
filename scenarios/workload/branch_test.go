package workload

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
)

// stored is a store with one image in it, and the catalogue that it is of.
func stored(t *testing.T) (*Store, Catalogue) {
	t.Helper()
	c := Catalogue{Cards: 1, Seed: "s"}
	root := t.TempDir()
	assert.NilError(t, os.Mkdir(filepath.Join(root, c.String()), 0o700))
	assert.NilError(t, os.WriteFile(filepath.Join(root, c.String(), "a.png"), []byte("image"), 0o600))
	s, err := NewStore(Program{}, root)
	assert.NilError(t, err)
	t.Cleanup(func() { assert.NilError(t, s.Close(context.Background())) })
	return s, c
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	answer, err := http.Get(url)
	assert.NilError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	assert.NilError(t, err)
	return answer.StatusCode, string(body)
}

func TestABranchServesTheStore(t *testing.T) {
	s, c := stored(t)
	b := s.Branch("lane-1")
	status, body := get(t, b.URL(c)+"/a.png")
	assert.Equal(t, status, http.StatusOK)
	assert.Equal(t, body, "image")
	b.Close()
	status, _ = get(t, b.URL(c)+"/a.png")
	assert.Equal(t, status, http.StatusNotFound)
}

func TestOnlyBranchesAreServed(t *testing.T) {
	s, c := stored(t)
	status, _ := get(t, "http://"+s.listener.Addr().String()+"/"+c.String()+"/a.png")
	assert.Equal(t, status, http.StatusNotFound)
}

func TestAnInterceptionTouchesItsOwnBranchOnly(t *testing.T) {
	s, c := stored(t)
	mine, other := s.Branch("lane-1"), s.Branch("lane-2")
	remove := mine.Intercept(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		w.WriteHeader(http.StatusTeapot)
		return true
	})
	status, _ := get(t, mine.URL(c)+"/a.png")
	assert.Equal(t, status, http.StatusTeapot)
	status, _ = get(t, other.URL(c)+"/a.png")
	assert.Equal(t, status, http.StatusOK)
	remove()
	status, _ = get(t, mine.URL(c)+"/a.png")
	assert.Equal(t, status, http.StatusOK)
}

func TestTheNewestInterceptionIsAskedFirst(t *testing.T) {
	s, c := stored(t)
	b := s.Branch("lane-1")
	b.Intercept(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		_, _ = io.WriteString(w, "old")
		return true
	})
	b.Intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
		if r.URL.Query().Has("pass") {
			return false
		}
		next.ServeHTTP(w, r)
		return true
	})
	_, body := get(t, b.URL(c)+"/a.png")
	assert.Equal(t, body, "image")
	_, body = get(t, b.URL(c)+"/a.png?pass")
	assert.Equal(t, body, "old")
}
