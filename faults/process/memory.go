package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/prometheus/procfs" // reads /proc/PID/stat in its awkward corners, such as names with brackets

	"deadwire/faults"
	"deadwire/harness/event"
	"deadwire/harness/wait"
)

// Memory puts a memory ceiling on one worker and makes its compute exceed it.
// As root the kernel's own OOM kill does the work, in a cgroup (v2 or v1) of
// the case; otherwise a watcher kills at the ceiling, as the kernel would.
type Memory struct {
	LimitMB int `json:"limit_mb,omitempty" doc:"ceiling in MiB; default 96"`
	Worker  int `json:"worker,omitempty" doc:"number of the worker, from 1; default 1"`
	Nth     int `json:"nth,omitempty" doc:"in the compute of its Nth job, from 1; default 2"`
}

// Name implements faults.Fault.
func (Memory) Name() string { return "process.memory" }

// Arm implements faults.Armer.
func (Memory) Arm() bool { return true }

// Available implements faults.Fault.
func (Memory) Available(t faults.Target) error { return needsSeam(t) }

// Expects implements faults.Expecter.
func (Memory) Expects() []faults.Expectation {
	return []faults.Expectation{{Rule: "process.died", Role: "worker-*"}}
}

// Inject implements faults.Fault.
func (f Memory) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	limit := orDefault(f.LimitMB, 96)
	t.Seam.Compute = &faults.ComputeAct{ID: t.ID, Do: "allocate", Worker: orOne(f.Worker), Nth: orDefault(f.Nth, 2), LimitMB: limit}
	var group cgroup
	heal := atMarker(ctx, t, func(ctx context.Context, m faults.Marker) error {
		var err error
		group, err = newCgroup(t.Own, "deadwire-"+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(m.PID), limit)
		how := "cgroup " + group.version
		if err == nil {
			err = group.add(m.PID)
		}
		if err != nil {
			how = "watcher, because " + err.Error()
		}
		t.Bit(rec, f, event.SessionID{}, m.PID, how)
		if contErr := t.Subject().SignalPID(m.PID, syscall.SIGCONT); contErr != nil {
			return contErr
		}
		if err != nil {
			return watch(ctx, t, m.PID, limit)
		}
		return nil
	})
	return func(ctx context.Context) error {
		err := heal(ctx)
		return errors.Join(err, group.remove(ctx))
	}, nil
}

// watch kills pid when its resident memory passes the ceiling.
func watch(ctx context.Context, t faults.Target, pid, limitMB int) error {
	return wait.For(ctx, fmt.Sprintf("pid %d to pass %d MiB", pid, limitMB), func(context.Context) wait.Answer {
		stat, err := statOf(pid)
		if err != nil {
			return wait.Never(err)
		}
		if got := stat.ResidentMemory() >> 20; got < limitMB {
			return wait.NotYet("%d MiB", got)
		}
		if err := t.Subject().SignalPID(pid, syscall.SIGKILL); err != nil {
			return wait.Never(err)
		}
		return wait.Done()
	})
}

func statOf(pid int) (procfs.ProcStat, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return p.Stat()
}

func stateOf(pid int) (string, error) {
	stat, err := statOf(pid)
	return stat.State, err
}

// cgroup is a control group with a memory ceiling; see cgroups(7).
type cgroup struct {
	dir     string
	version string
	once    *sync.Once
}

// mount points and the files of each version that set the ceiling
func cgroupPlaces() []struct{ version, root, limit, swap string } {
	return []struct{ version, root, limit, swap string }{
		{"v2", "/sys/fs/cgroup", "memory.max", "memory.swap.max"},
		{"v1", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"},
	}
}

func newCgroup(own func(kind, value string) error, name string, limitMB int) (cgroup, error) {
	var errs []error
	for _, place := range cgroupPlaces() {
		g := cgroup{dir: filepath.Join(place.root, name), version: place.version, once: &sync.Once{}}
		if own != nil {
			if err := own(CgroupKind, g.dir); err != nil {
				return cgroup{}, err
			}
		}
		if err := os.Mkdir(g.dir, 0o755); err != nil {
			errs = append(errs, err)
			continue
		}
		bytes := strconv.Itoa(limitMB << 20)
		if err := set(filepath.Join(g.dir, place.limit), bytes); err != nil {
			errs = append(errs, err, os.Remove(g.dir))
			continue
		}
		// Without swap accounting this file is absent; then there is no swap to spill into either.
		_ = set(filepath.Join(g.dir, place.swap), bytes)
		return g, nil
	}
	return cgroup{}, fmt.Errorf("make a memory cgroup: %w", errors.Join(errs...))
}

func (g cgroup) add(pid int) error {
	return set(filepath.Join(g.dir, "cgroup.procs"), strconv.Itoa(pid))
}

// set writes to a file of the kernel's and never creates one: under a hybrid
// set-up the v2 mount point is a plain tmpfs, which would take any file.
func set(path, value string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}

// remove deletes the group once its processes are gone.
func (g cgroup) remove(ctx context.Context) error {
	if g.dir == "" {
		return nil
	}
	var err error
	g.once.Do(func() { err = RemoveCgroup(ctx, g.dir) })
	return err
}

// CgroupKind is the kind under which cgroups are owned.
const CgroupKind = "cgroup"

// RemoveCgroup removes a control group, once its processes are gone. One that
// does not exist is no error.
func RemoveCgroup(ctx context.Context, dir string) error {
	return wait.For(ctx, "cgroup "+dir+" to empty", func(context.Context) wait.Answer {
		if err := os.Remove(dir); err != nil && !os.IsNotExist(err) {
			return wait.NotYet("%v", err)
		}
		return wait.Done()
	})
}

// CeilingMeans says how a memory ceiling would be enforced on this machine; the
// error says why only a watcher can.
func CeilingMeans() (string, error) {
	g, err := newCgroup(nil, "deadwire-probe-"+strconv.Itoa(os.Getpid()), 64)
	if err != nil {
		return "", fmt.Errorf("no cgroup of our own, so a watcher kills at the ceiling: %w", err)
	}
	return "cgroup " + g.version + ": the kernel's own OOM kill", os.Remove(g.dir)
}
