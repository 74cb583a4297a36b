package subject

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// procfs is read by hand: the tree is looked at hundreds of times a second, and
// two fields that are needed (end of the environment, exit code) are not in
// the usual parsers.

// fields of /proc/PID/stat by their numbers in proc_pid_stat(5)
const (
	statState     = 3
	statPPID      = 4
	statStartTime = 22
	statEnvEnd    = 51
	statExitCode  = 52
)

// stat is what /proc/PID/stat tells.
type stat struct {
	state byte
	ppid  int
	start uint64 // clock ticks since boot
	// image is where the environment ends in memory. With randomised addresses it
	// changes with each exec, and the kernel sets it once in one, when argv is
	// complete. 0: in the midst of an exec, or reading it is not permitted.
	image uint64
	exit  int // wait status of a zombie, 0 when not permitted
}

func readStat(pid int) (stat, error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, fmt.Errorf("read stat of pid %d: %w", pid, err)
	}
	return parseStat(raw)
}

func parseStat(raw []byte) (stat, error) {
	// The second field is the name in brackets, which may hold anything.
	end := bytes.LastIndexByte(raw, ')')
	fields := bytes.Fields(raw[end+1:])
	if end < 0 || len(fields) < statExitCode-2 {
		return stat{}, errors.New("stat of a process is of unknown form")
	}
	number := func(field int) uint64 {
		n, _ := strconv.ParseUint(string(fields[field-statState]), 10, 64)
		return n
	}
	return stat{
		state: fields[0][0],
		ppid:  int(number(statPPID)),
		start: number(statStartTime),
		image: number(statEnvEnd),
		exit:  int(number(statExitCode)),
	}, nil
}

func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

// readArgv returns a command line; nil for a process that is gone or ending.
func readArgv(pid int) []string {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil || len(raw) == 0 {
		return nil
	}
	var argv []string
	for argument := range bytes.SplitSeq(bytes.TrimSuffix(raw, []byte{0}), []byte{0}) {
		argv = append(argv, string(argument))
	}
	return argv
}

// hasVariable reports whether a process was executed with an environment entry.
func hasVariable(pid int, entry string) bool {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for variable := range bytes.SplitSeq(raw, []byte{0}) {
		if string(variable) == entry {
			return true
		}
	}
	return false
}

// family lists the children of processes.
type family interface {
	children(pid int) []int
}

// look returns the way to list children for one round of looking.
func look() family {
	if _, err := os.Stat("/proc/thread-self/children"); err == nil {
		return listedFamily{}
	}
	return newScannedFamily()
}

// listedFamily reads what the kernel lists for each thread; it needs
// CONFIG_PROC_CHILDREN, which all distributions set.
type listedFamily struct{}

func (listedFamily) children(pid int) []int {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, err := readNames(tasks)
	if err != nil {
		return nil
	}
	var pids []int
	for _, thread := range threads {
		raw, err := os.ReadFile(tasks + thread + "/children")
		if err != nil {
			continue
		}
		for field := range bytes.FieldsSeq(raw) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// scannedFamily was gathered by one look at all processes.
type scannedFamily map[int][]int

func newScannedFamily() scannedFamily {
	found := scannedFamily{}
	names, err := readNames("/proc")
	if err != nil {
		return found
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil {
			found[s.ppid] = append(found[s.ppid], pid)
		}
	}
	return found
}

func (f scannedFamily) children(pid int) []int { return f[pid] }

func readNames(path string) ([]string, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // read only
	return dir.Readdirnames(-1)
}
