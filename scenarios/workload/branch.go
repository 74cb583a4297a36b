package workload

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// branchPrefix begins the path of a branch's requests; what follows is its name
// and the path below the store's root.
const branchPrefix = "/branch/"

// Branch is the image source as one run of the subject sees it: the store's
// files under an address of its own, so that a fault of one case touches no other.
type Branch struct {
	store *Store
	name  string

	mu      sync.Mutex
	answers []*answer
}

type answer struct {
	try func(w http.ResponseWriter, r *http.Request, next http.Handler) bool
}

// Branch opens a branch; the name is unique among those that are open.
func (s *Store) Branch(name string) *Branch {
	b := &Branch{store: s, name: name}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.branches[name] = b
	return b
}

// URL returns the address under which a catalogue's images are served.
func (b *Branch) URL(c Catalogue) string {
	return fmt.Sprintf("http://%s%s%s/%s", b.store.listener.Addr(), branchPrefix, b.name, c)
}

// Close forgets the branch; later requests for it are not found.
func (b *Branch) Close() {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	delete(b.store.branches, b.name)
}

// Intercept asks try about each request until remove is called, the newest one
// first. A try that returns false has written nothing; next serves the file.
func (b *Branch) Intercept(try func(w http.ResponseWriter, r *http.Request, next http.Handler) bool) (remove func()) {
	a := &answer{try: try}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers = append(b.answers, a)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.answers = slices.DeleteFunc(b.answers, func(one *answer) bool { return one == a })
	}
}

// ServeHTTP serves the branches; there is nothing else.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, branchPrefix), "/")
	s.mu.Lock()
	b := s.branches[name]
	s.mu.Unlock()
	if b == nil || !strings.HasPrefix(r.URL.Path, branchPrefix) {
		http.NotFound(w, r)
		return
	}
	next := http.StripPrefix(branchPrefix+name, s.files)
	b.mu.Lock()
	answers := slices.Clone(b.answers)
	b.mu.Unlock()
	for _, a := range slices.Backward(answers) {
		if a.try(w, r, next) {
			return
		}
	}
	next.ServeHTTP(w, r)
}
