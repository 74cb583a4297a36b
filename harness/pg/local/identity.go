package local

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"deadwire/harness/wait"
)

// quitTimeout is how long an immediate shutdown may take before SIGKILL; the
// postmaster itself gives its children 5 s.
const quitTimeout = 8 * time.Second

// identity names one process for good: its pid, and its start time against the
// pid being used again.
type identity struct {
	PID     int    `json:"pid"`
	Started uint64 `json:"started"` // clock ticks since boot on Linux; 0 where it cannot be told
}

// end shuts a postmaster down that is not our child, and returns once it is gone.
func end(ctx context.Context, p identity) error {
	for _, signal := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL} {
		if !alive(p) {
			return nil
		}
		if err := syscall.Kill(p.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end postmaster %d: %w", p.PID, err)
		}
		gone := func(context.Context) wait.Answer {
			if alive(p) {
				return wait.NotYet("it is alive")
			}
			return wait.Done()
		}
		bounded, cancel := context.WithTimeout(ctx, quitTimeout)
		err := wait.For(bounded, fmt.Sprintf("postmaster %d to end", p.PID), gone)
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("end postmaster %d: it outlives SIGKILL", p.PID)
}
