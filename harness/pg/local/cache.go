package local

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"deadwire/harness/pg"
	"deadwire/harness/pg/cluster"
	"deadwire/harness/wait"
)

// cacheFormat is part of an entry's name: raise it when what initdb is told, or
// what is done to its result, changes.
const cacheFormat = 1

const manifestName = "deadwire.json"

// cache holds initialised data folders, one per installation of the server. An
// entry appears under its name by a rename, so it is whole or absent.
type cache struct {
	dir string
	as  *account
}

// manifest is written last into an entry.
type manifest struct {
	Version  string  `json:"version"`
	Password string  `json:"password"` // the first one of the superuser: changed in every clone before it serves
	Content  content `json:"content"`
}

func openCache(dir string, as *account) (*cache, error) {
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil { // no HOME, as in some containers
			base = filepath.Join(os.TempDir(), fmt.Sprintf("deadwire-cache-%d", os.Geteuid()))
		}
		dir = filepath.Join(base, "deadwire")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make cache folder: %w", err)
	}
	return &cache{dir: dir, as: as}, nil
}

func (c *cache) entry(b *binaries) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%d\n%d", b.dir, b.modTime.UnixNano(), c.as.uid, cacheFormat))
	return filepath.Join(c.dir, fmt.Sprintf("pg-%s-%x", b.version, sum[:6]))
}

// clone puts a fresh data folder at target, and returns the superuser's first
// password. A damaged entry is made again, once.
func (c *cache) clone(ctx context.Context, b *binaries, target string) (pg.Password, error) {
	password, err := c.cloneEntry(ctx, b, target)
	if err == nil || ctx.Err() != nil {
		return password, err
	}
	damaged := err
	if err := errors.Join(os.RemoveAll(target), c.discard(ctx, b)); err != nil {
		return "", errors.Join(damaged, err)
	}
	return c.cloneEntry(ctx, b, target)
}

func (c *cache) cloneEntry(ctx context.Context, b *binaries, target string) (pg.Password, error) {
	entry := c.entry(b)
	m, err := readManifest(entry)
	if err != nil {
		if err := c.fill(ctx, b); err != nil {
			return "", err
		}
		if m, err = readManifest(entry); err != nil {
			return "", fmt.Errorf("read cache: %w", err)
		}
	}
	copied, err := copyTree(filepath.Join(entry, "data"), target, c.as)
	if err != nil {
		return "", err
	}
	if copied != m.Content {
		return "", fmt.Errorf("read cache: %s holds %+v, want %+v", entry, copied, m.Content)
	}
	return pg.Password(m.Password), nil
}

func readManifest(entry string) (manifest, error) {
	var m manifest
	text, err := os.ReadFile(filepath.Join(entry, manifestName))
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(text, &m)
}

// locked calls do while no other process changes the entry. The lock is a
// flock, which dies with its holder.
func (c *cache) locked(ctx context.Context, b *binaries, do func() error) error {
	file, err := os.OpenFile(c.entry(b)+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock cache: %w", err)
	}
	defer func() { _ = file.Close() }()
	err = wait.For(ctx, "the cache's lock", func(context.Context) wait.Answer {
		switch err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return wait.Done()
		case errors.Is(err, syscall.EWOULDBLOCK), errors.Is(err, syscall.EINTR):
			return wait.NotYet("another process initialises a data folder")
		default:
			return wait.Never(err)
		}
	})
	if err != nil {
		return err
	}
	return do()
}

func (c *cache) discard(ctx context.Context, b *binaries) error {
	return c.locked(ctx, b, func() error { return os.RemoveAll(c.entry(b)) })
}

// fill makes the entry unless another process was faster.
func (c *cache) fill(ctx context.Context, b *binaries) error {
	return c.locked(ctx, b, func() error {
		if _, err := readManifest(c.entry(b)); err == nil {
			return nil
		}
		if err := os.RemoveAll(c.entry(b)); err != nil { // half-made
			return fmt.Errorf("clear cache: %w", err)
		}
		return c.build(ctx, b)
	})
}

// build initialises a data folder in a place that the account reaches, and
// moves it into the cache.
func (c *cache) build(ctx context.Context, b *binaries) (err error) {
	h, err := newHome("", c.as)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.remove()) }()
	password := cluster.NewPassword()
	if err := initialise(ctx, b, h, password, c.as); err != nil {
		return err
	}
	// Made half and killed, it is recognised by its name; the next build clears it.
	half := c.entry(b) + ".half"
	if err := errors.Join(os.RemoveAll(half), os.Mkdir(half, 0o700)); err != nil {
		return fmt.Errorf("fill cache: %w", err)
	}
	if err := c.move(h.data(), filepath.Join(half, "data")); err != nil {
		return err
	}
	m := manifest{Version: b.version.String(), Password: password.Reveal()}
	if m.Content, err = measure(filepath.Join(half, "data")); err != nil {
		return fmt.Errorf("fill cache: %w", err)
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(half, manifestName), text, 0o600); err != nil {
		return fmt.Errorf("fill cache: %w", err)
	}
	return os.Rename(half, c.entry(b))
}

// move renames, or copies where the cache is on another file system.
func (c *cache) move(source, target string) error {
	err := os.Rename(source, target)
	if errors.Is(err, syscall.EXDEV) {
		_, err = copyTree(source, target, c.as)
	}
	return err
}

// initialise runs initdb in a home.
func initialise(ctx context.Context, b *binaries, h *home, password pg.Password, as *account) error {
	secret := filepath.Join(h.dir, "password")
	if err := os.WriteFile(secret, []byte(password.Reveal()+"\n"), 0o600); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	if err := as.own(secret); err != nil {
		return err
	}
	// The thread that starts it must live as long as it does: see childAttributes.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, b.path("initdb"), cluster.InitArgs(b.version, h.data(), secret)...)
	cmd.SysProcAttr = childAttributes(as, syscall.SIGKILL)
	cmd.Dir, cmd.Env = h.dir, environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		return &pg.StartError{Err: fmt.Errorf("initdb: %w", err), Log: lastLines(string(out))}
	}
	if err := os.WriteFile(filepath.Join(h.data(), "pg_hba.conf"), []byte(cluster.HBA), 0o600); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	return errors.Join(thinLogs(h.data()), include(h.data()))
}
