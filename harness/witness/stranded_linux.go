package witness

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"deadwire/harness/event"

	"golang.org/x/sys/unix"
)

// strandedAfter is how long a lone thread must wait for one lock before it is worth
// an event, and then again after each doubling. Anything shorter is an ordinary wait.
const strandedAfter = 500 * time.Millisecond

// linux/futex.h, which x/sys/unix does not have
const (
	futexWait       = 0
	futexWaitBitset = 9
	futexCommand    = 0x7f
	futexPrivate    = 0x80
)

// stranded looks for processes whose only thread waits for a lock in memory that no
// other process shares: nobody is left who could release it. Fork makes such
// processes, since it copies the locks and queues of a pool, but not its threads.
type stranded struct {
	mu    sync.Mutex
	waits map[int]*lockWait
}

// lockWait is one uninterrupted wait of a process.
type lockWait struct {
	switches string        // voluntary context switches so far: it has not run since
	since    time.Duration // when it was first seen
	next     time.Duration // how long it must last for the next event
}

func newStranded() *stranded { return &stranded{waits: map[int]*lockWait{}} }

// look checks each of pids, and records those that have waited for long.
func (s *stranded) look(recorder event.Recorder, pids []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, waiting := recorder.Now(), map[int]*lockWait{}
	for _, pid := range pids {
		if !waitsForLock(pid) {
			continue
		}
		state, alone := loneThread(pid)
		if !alone {
			continue
		}
		w := s.waits[pid]
		if w == nil || w.switches != state.switches {
			w = &lockWait{switches: state.switches, since: now, next: strandedAfter}
		}
		waiting[pid] = w
		if lasted := now - w.since; lasted >= w.next {
			w.next = 2 * lasted
			recorder.Record(event.Event{
				Kind: event.ProcessStranded, PID: pid,
				Stranded: &event.Stranded{For: lasted, PPID: state.parent, ParentThreads: threads(state.parent)},
			})
		}
	}
	s.waits = waiting
}

// waitsForLock reports whether the main thread of a process waits for a futex that is
// private to it. Where that may not be read it is taken for working.
func waitsForLock(pid int) bool {
	text, readable := callOf(pid)
	fields := strings.Fields(text)
	if !readable || len(fields) < 3 || fields[0] != strconv.Itoa(unix.SYS_FUTEX) {
		return false
	}
	operation, err := strconv.ParseUint(strings.TrimPrefix(fields[2], "0x"), 16, 64)
	command := operation & futexCommand
	return err == nil && operation&futexPrivate != 0 && (command == futexWait || command == futexWaitBitset)
}

// callOf returns the call that a process's main thread stands in, as proc(5) has it,
// or why it may not be read.
func callOf(pid int) (text string, readable bool) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/syscall")
	if err != nil {
		return err.Error(), false
	}
	return string(raw), true
}

// lone is what a process with one thread says of itself.
type lone struct {
	parent   int
	switches string
}

func loneThread(pid int) (lone, bool) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil || statusField(status, "Threads") != "1" {
		return lone{}, false
	}
	parent, err := strconv.Atoi(statusField(status, "PPid"))
	return lone{parent: parent, switches: statusField(status, "voluntary_ctxt_switches")}, err == nil
}

// threads returns how many threads a process has, 0 when it is gone.
func threads(pid int) int {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(statusField(status, "Threads"))
	if err != nil {
		return 0
	}
	return n
}

// statusField returns the value of a line of /proc/PID/status.
func statusField(status []byte, name string) string {
	_, rest, found := bytes.Cut(status, []byte("\n"+name+":\t"))
	if !found {
		return ""
	}
	value, _, _ := bytes.Cut(rest, []byte("\n"))
	return string(value)
}
