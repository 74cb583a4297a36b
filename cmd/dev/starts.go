package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"deadwire/harness/wait"
)

const (
	// startMaxEach bounds one start, with the fetch of binaries, on a busy machine.
	startMaxEach = 5 * time.Minute
	// settleMax is how long what a killed run began may take to end by itself.
	settleMax = time.Minute
	// runsName is where the children's folders are.
	runsName = "runs"
)

// startsFlags choose the trials.
type startsFlags struct {
	postgres, image    string
	n, kills, parallel int
	seed               string
}

func startsCommand() *cobra.Command {
	var f startsFlags
	cmd := &cobra.Command{
		Use:   "starts",
		Short: "Start PostgreSQL many times, kill the starter at random moments, and look for what is left",
		Long: `Each start is a process of its own that sweeps, takes a lease, starts a server, clones a database, and
stops; a kill ends such a process by SIGKILL at a random moment. After the next ordinary start nothing may be
left of any of them: no process, shared memory, container, volume, port, folder, lease, lock or database.
For --postgres=embedded the binaries come from a repository of the installed ones, and are fetched anew in
each group of kills.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.postgres, "postgres", "local", "what deadwire's flag of that name takes")
	flags.StringVar(&f.image, "postgres-image", "", "`IMAGE` for docker")
	flags.IntVar(&f.n, "n", 200, "how many ordinary starts")
	flags.IntVar(&f.kills, "kills", 50, "how many kills")
	flags.IntVar(&f.parallel, "parallel", 8, "how many at once")
	flags.StringVar(&f.seed, "seed", "1", "text from which the moments follow")
	return cmd
}

// run carries out all trials; its error says what failed or was left.
func (f *startsFlags) run(ctx context.Context, out io.Writer) error {
	if !strings.HasPrefix(f.postgres, "embedded") {
		return f.runWith(ctx, out, nil)
	}
	return withRepository(ctx, nil, func(ctx context.Context, env []string) error { return f.runWith(ctx, out, env) })
}

func (f *startsFlags) runWith(ctx context.Context, out io.Writer, env []string) (err error) {
	s, err := newStarts(ctx, f, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	err = s.ordinary(ctx)
	if err == nil {
		err = s.settled(ctx)
	}
	fmt.Fprintf(out, "%d of %d starts, %d at once: median %v, longest %v\n", len(s.took), f.n, f.parallel, s.median(), slices.Max(append(s.took, 0)))
	if err != nil {
		return err
	}
	err = s.killed(ctx)
	fmt.Fprintf(out, "%d of %d kills: %d before the server was ready; %d groups, each followed by a start that left nothing\n", s.kills, f.kills, s.early, s.groups)
	return err
}

// starts are trials under way.
type starts struct {
	*startsFlags
	dir    string // temporary files and caches of all children
	env    []string
	before account // what was here already
	random *rand.Rand

	mu     sync.Mutex
	took   []time.Duration // of the ordinary ones
	seen   []startReport
	kills  int
	early  int
	groups int
}

func newStarts(ctx context.Context, f *startsFlags, env []string) (*starts, error) {
	dir, err := os.MkdirTemp("", "dw-starts-")
	if err != nil {
		return nil, err
	}
	tmp, cache := filepath.Join(dir, "tmp"), filepath.Join(dir, "cache")
	// Servers of another user than ours live and are run from there.
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(tmp, 0o755), os.Mkdir(cache, 0o755), os.Mkdir(filepath.Join(dir, runsName), 0o755)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	sum := fnv.New64a()
	_, _ = io.WriteString(sum, f.seed) // a hash takes everything
	s := &starts{
		startsFlags: f, dir: dir, random: rand.New(rand.NewPCG(sum.Sum64(), 0)),
		env: slices.Concat(os.Environ(), env, []string{"TMPDIR=" + tmp, "XDG_CACHE_HOME=" + cache}),
	}
	if s.before, err = s.look(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// ordinary carries out the starts that nobody disturbs. The first one is alone,
// so that caches are filled as on a user's machine.
func (s *starts) ordinary(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(s.parallel)
	for n := range s.n {
		if n == 0 {
			if err := s.one(ctx); err != nil {
				return err
			}
			continue
		}
		group.Go(func() error { return s.one(ctx) })
	}
	return group.Wait()
}

// one is an ordinary start, from the process's beginning to its end.
func (s *starts) one(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startMaxEach)
	defer cancel()
	began := time.Now()
	var errOut strings.Builder
	cmd, err := s.child(ctx)
	if err != nil {
		return err
	}
	cmd.Stderr = &errOut
	stdout, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("start: %w: %s", err, strings.TrimSpace(errOut.String()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, time.Since(began).Round(time.Millisecond))
	return s.note(stdout)
}

// note keeps what a child told of its server. The caller holds mu.
func (s *starts) note(stdout []byte) error {
	var report startReport
	if err := json.Unmarshal(stdout, &report); err != nil {
		return fmt.Errorf("read a child's report %q: %w", stdout, err)
	}
	s.seen = append(s.seen, report)
	return nil
}

func (s *starts) child(ctx context.Context) (*exec.Cmd, error) {
	dir, err := os.MkdirTemp(filepath.Join(s.dir, runsName), "run-")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", startChildName, "--postgres", s.postgres, "--postgres-image", s.image, "--dir", dir)
	cmd.Env = s.env
	return cmd, nil
}

// killed carries out the kills, in groups; after each group comes an ordinary
// start, after which nothing may be left.
func (s *starts) killed(ctx context.Context) error {
	for s.kills < s.startsFlags.kills {
		// A fetch is something to be killed in as well.
		if err := os.RemoveAll(filepath.Join(s.dir, "cache", "deadwire", "embedded")); err != nil {
			return err
		}
		var group errgroup.Group
		for range min(s.parallel, s.startsFlags.kills-s.kills) {
			moment := time.Duration(s.random.Int64N(int64(max(1, s.median()))))
			group.Go(func() error { return s.killOne(ctx, moment) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if err := s.one(ctx); err != nil {
			return err
		}
		if err := s.settled(ctx); err != nil {
			return fmt.Errorf("after %d kills: %w", s.kills, err)
		}
		s.groups++
	}
	return nil
}

// killOne kills a start at a moment after its beginning. One that was faster does
// not count.
func (s *starts) killOne(ctx context.Context, moment time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	cmd, err := s.child(ctx)
	if err != nil {
		return err
	}
	stdout, err := cmd.Output()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("a start that was to be killed after %v failed before: %w", moment, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.kills++
	}
	if len(stdout) == 0 {
		s.early++
		return nil
	}
	return s.note(stdout)
}

// settled waits until nothing is left that was not here before the trials.
func (s *starts) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleMax)
	defer cancel()
	var left []string
	return wait.For(ctx, "everything to be gone", func(ctx context.Context) wait.Answer {
		now, err := s.look(ctx)
		switch {
		case err != nil && ctx.Err() != nil: // the time is up in the middle of a look: the one before counts
			return wait.NotYet("left: %s", strings.Join(left, "; "))
		case err != nil:
			return wait.Never(err)
		}
		if left = now.without(s.before); len(left) > 0 {
			return wait.NotYet("left: %s", strings.Join(left, "; "))
		}
		return wait.Done()
	})
}

func (s *starts) median() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.took) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(s.took))[len(s.took)/2]
}
