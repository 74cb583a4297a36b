//go:build !linux

package witness

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"runtime"

	"deadwire/harness/event"
)

// Available returns why there is no exact witness on this system.
func Available() error {
	return &Unavailable{
		Why:  runtime.GOOS + " has no seccomp notification and no procfs",
		Mend: "run on Linux to learn who held and who hung up; what the wire tells is still told",
	}
}

// ReadsMemory returns why no process's memory is read on this system.
func ReadsMemory() error { return Available() }

// Main returns at once: there is no launcher on this system.
func Main() (code int, launched bool) { return 0, false }

// Launch is a subject that is not observed.
type Launch struct{}

// Wrap leaves cmd as it is.
func (w *Witness) Wrap(cmd *exec.Cmd, tree Tracker) (*Launch, error) {
	if _, launched := os.LookupEnv(launcherVariable); launched {
		return nil, errMainNotCalled
	}
	return &Launch{}, cmd.Err
}

// Serve returns at once.
func (l *Launch) Serve(context.Context) error { return nil }

// Certainty returns Holders.
func (l *Launch) Certainty() string { return Holders }

// Launched returns false.
func (l *Launch) Launched() bool { return false }

// Close returns at once.
func (l *Launch) Close(context.Context) error { return nil }

type inodeSource struct{}

func (s *inodeSource) lookup(_, _ netip.AddrPort) (uint64, error) { return 0, nil }

func (s *inodeSource) peerOf(uint64) (uint64, error) { return 0, nil }

func (s *inodeSource) close() error { return nil }

func readSoftware(int) []string { return nil }

type stranded struct{}

func newStranded() *stranded { return nil }

func (s *stranded) look(event.Recorder, []int) {}

func scanHolders([]int, map[uint64]struct{}) map[uint64][]int { return nil }
