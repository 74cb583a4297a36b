package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"deadwire/harness/pg/local"
	"deadwire/harness/wait"
)

// store is where the binaries of one version are. The folder appears under its
// name by a rename, so it is whole or absent.
type store struct {
	dir     string
	version string
	as      *syscall.Credential // who fetches; nil: ourselves
}

func (s *store) home() string { return filepath.Join(s.dir, s.version) }

// half is where a fetch works; a killed one leaves it to the next.
func (s *store) half() string { return filepath.Join(s.dir, s.version+".half") }

func (s *store) present() bool {
	_, err := os.Stat(s.home())
	return err == nil
}

// fill fetches the binaries unless another process has.
func (s *store) fill(ctx context.Context, repository string, progress func(string)) error {
	if s.present() {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	return s.locked(ctx, func() error {
		if s.present() {
			return nil
		}
		err := s.fetch(ctx, repository, progress)
		return errors.Join(err, os.RemoveAll(s.half()))
	})
}

func (s *store) fetch(ctx context.Context, repository string, progress func(string)) error {
	if err := errors.Join(os.RemoveAll(s.half()), os.Mkdir(s.half(), 0o700)); err != nil {
		return err
	}
	if s.as != nil {
		if err := os.Chown(s.half(), int(s.as.Uid), int(s.as.Gid)); err != nil {
			return err
		}
	}
	if err := runChild(ctx, task{Repository: repository, Version: s.version, Dir: s.half(), As: s.as}, progress); err != nil {
		return err
	}
	unpacked := filepath.Join(s.half(), binariesName)
	if err := s.takeOver(unpacked); err != nil {
		return err
	}
	if err := local.New(local.Options{BinDir: filepath.Join(unpacked, "bin")}).Available(ctx); err != nil {
		return fmt.Errorf("what was fetched does not run here: %w", err)
	}
	return os.Rename(unpacked, s.home())
}

// takeOver makes the files ours: nobody else may change what we run.
func (s *store) takeOver(dir string) error {
	if s.as == nil {
		return nil
	}
	err := os.Chmod(s.half(), 0o755) // servers' user enters it by this from now on
	return errors.Join(err, os.Chown(s.half(), os.Geteuid(), os.Getegid()), filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, os.Geteuid(), os.Getegid())
	}))
}

// locked calls do while no other process fetches the same. The lock is a flock,
// which dies with its holder.
func (s *store) locked(ctx context.Context, do func() error) error {
	file, err := os.OpenFile(s.home()+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	err = wait.For(ctx, "another process to fetch it", func(context.Context) wait.Answer {
		switch err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return wait.Done()
		case errors.Is(err, syscall.EWOULDBLOCK), errors.Is(err, syscall.EINTR):
			return wait.NotYet("it is at it")
		default:
			return wait.Never(err)
		}
	})
	if err != nil {
		return err
	}
	return do()
}
