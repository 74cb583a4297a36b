package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"deadwire/harness/wait"
)

// orphanTimeout bounds the wait for children of a killed postmaster; they end
// by themselves when they notice.
const orphanTimeout = 10 * time.Second

// lines of postmaster.pid, from 0 (PostgreSQL source, miscadmin.h: LOCK_FILE_LINE_*)
const (
	linePID          = 0
	lineSharedMemory = 6 // key and id of the System V segment
	lineStatus       = 7
)

// segment is a System V shared memory segment; its creator tells it from a
// later one with the same id.
type segment struct {
	id, creator int
}

// releaseSharedMemory removes what a postmaster that was killed left behind: the
// small System V segment by which PostgreSQL guards a data folder, and the pid
// file. It waits until nobody is attached, that is, until all children are gone.
func releaseSharedMemory(ctx context.Context, dataDir string) error {
	path := filepath.Join(dataDir, "postmaster.pid")
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it ended properly
	}
	if err != nil {
		return fmt.Errorf("release shared memory: %w", err)
	}
	if left, known := parseSegment(string(text)); known {
		if err := left.remove(ctx); err != nil {
			return fmt.Errorf("release shared memory: %w", err)
		}
	}
	return os.Remove(path)
}

func parseSegment(pidFile string) (left segment, known bool) {
	lines := strings.Split(pidFile, "\n")
	if len(lines) <= lineSharedMemory {
		return segment{}, false
	}
	fields := strings.Fields(lines[lineSharedMemory])
	if len(fields) != 2 {
		return segment{}, false
	}
	creator, creatorErr := strconv.Atoi(lines[linePID])
	id, idErr := strconv.Atoi(fields[1])
	return segment{id: id, creator: creator}, creatorErr == nil && idErr == nil
}

func (s segment) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, orphanTimeout)
	defer cancel()
	return wait.For(ctx, "the children of a dead postmaster to end", func(context.Context) wait.Answer {
		var desc unix.SysvShmDesc
		if _, err := unix.SysvShmCtl(s.id, unix.IPC_STAT, &desc); err != nil || int(desc.Cpid) != s.creator {
			return wait.Done() // gone, or the id is someone else's by now
		}
		if desc.Nattch > 0 {
			return wait.NotYet("%d processes are attached to its shared memory", desc.Nattch)
		}
		if _, err := unix.SysvShmCtl(s.id, unix.IPC_RMID, nil); err != nil {
			return wait.Never(err)
		}
		return wait.Done()
	})
}
