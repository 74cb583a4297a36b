package soak

import (
	"os"
	"path/filepath"
	"runtime"

	"github.com/prometheus/procfs" // our own resident memory and descriptors

	"deadwire/harness/report"
)

// measure takes what could leak into the tally. The caller holds s.mu.
func (s *soak) measure(c report.Case) {
	t := s.result.Tally
	t.goroutines.add(float64(runtime.NumGoroutine()))
	if self, err := procfs.Self(); err == nil { // elsewhere there is no procfs, and nothing to add
		if stat, err := self.Stat(); err == nil {
			t.memory.add(float64(stat.ResidentMemory()))
		}
		if n, err := self.FileDescriptorsLen(); err == nil {
			t.descriptors.add(float64(n))
		}
	}
	t.Journal = max(t.Journal, journalSize(filepath.Join(s.Dir, c.Dir)))
}

// journalSize returns the size of the larger one of a round's journals.
func journalSize(dir string) (size int64) {
	for _, name := range []string{"events.jsonl", filepath.Join("resume", "events.jsonl")} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			size = max(size, info.Size())
		}
	}
	return size
}
