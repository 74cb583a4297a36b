// Package workload makes what the subject works on: seeded card catalogues,
// generated once per run by conveyor's own command, and the HTTP server that
// they are fetched from. It owns the folders and the server; what the cards
// mean is the pipeline's business.
package workload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Program is how conveyor's commands are started.
type Program struct {
	Path string   // of the executable
	Args []string // that come before the command, such as "conveyor"
	Env  []string // NAME=VALUE, added to our own
	Seam bool     // it has the fault seam
}

// Command returns a process of the program, not started yet.
func (p Program) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.Path, append(append([]string{}, p.Args...), args...)...)
	cmd.Env = append(os.Environ(), p.Env...)
	return cmd
}

// Catalogue names a catalogue: equal values give equal bytes.
type Catalogue struct {
	Cards int
	Seed  string
}

// String returns the catalogue's folder name.
func (c Catalogue) String() string { return fmt.Sprintf("%d-%s", c.Cards, c.Seed) }

// Store holds the catalogues of a run and serves them over HTTP on loopback.
type Store struct {
	generator Program
	root      string
	listener  net.Listener
	files     http.Handler
	server    *http.Server
	served    chan error

	mu       sync.Mutex
	made     map[Catalogue]*folder
	branches map[string]*Branch
}

type folder struct {
	once sync.Once
	err  error
}

// headerMax bounds how long a client may take to say what it wants.
const headerMax = 10 * time.Second

// NewStore returns a store below root, which must exist.
func NewStore(generator Program, root string) (*Store, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start image source: %w", err)
	}
	s := &Store{
		generator: generator, root: root, listener: listener,
		files: http.FileServer(http.Dir(root)), served: make(chan error, 1),
		made: map[Catalogue]*folder{}, branches: map[string]*Branch{},
	}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: headerMax}
	go func() { s.served <- s.server.Serve(listener) }()
	return s, nil
}

// Dir returns the folder of a catalogue, and generates it first if need be.
func (s *Store) Dir(ctx context.Context, c Catalogue) (string, error) {
	s.mu.Lock()
	f := s.made[c]
	if f == nil {
		f = &folder{}
		s.made[c] = f
	}
	s.mu.Unlock()
	dir := filepath.Join(s.root, c.String())
	f.once.Do(func() { f.err = s.generate(ctx, c, dir) })
	return dir, f.err
}

func (s *Store) generate(ctx context.Context, c Catalogue, dir string) error {
	cmd := s.generator.Command(ctx, "catalog", "generate", "--cards", strconv.Itoa(c.Cards), "--seed", c.Seed, "--out", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("generate %d cards: %w: %s", c.Cards, err, out)
	}
	return nil
}

// Close stops the server.
func (s *Store) Close(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.server.Close())
	}
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
