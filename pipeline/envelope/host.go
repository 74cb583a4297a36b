package envelope

import (
	"context"
	"math/rand/v2"
	"runtime"
	"time"

	// procfs: load average and resident memory without parsing of our own.
	"github.com/prometheus/procfs"
)

// Host is the world of this machine. Where there is no /proc nothing is readable, and
// so nothing is waited for.
func Host() World {
	return World{
		Load: hostLoad, Now: time.Now, Sleep: sleep,
		Jitter: func() float64 { return 0.75 + 0.75*rand.Float64() },
	}
}

func hostLoad() (float64, bool) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, false
	}
	load, err := fs.LoadAvg()
	if err != nil {
		return 0, false
	}
	return load.Load1, true
}

func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Memory is the resident memory of the largest of our processes, in bytes: of this one
// and of those with the given ids. 0 means that none was readable.
func Memory(pids ...int) int64 {
	if runtime.GOOS != "linux" {
		return 0
	}
	var largest int64
	if self, err := procfs.Self(); err == nil {
		pids = append(pids, self.PID)
	}
	for _, pid := range pids {
		process, err := procfs.NewProc(pid)
		if err != nil {
			continue // it ended
		}
		if stat, err := process.Stat(); err == nil {
			largest = max(largest, int64(stat.ResidentMemory()))
		}
	}
	return largest
}
