package witness

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// ReadsMemory returns nil if the memory of a process that we started can be read, as
// the exact witness does to tell what is sent, or an *Unavailable. Without it a send is
// told by its length alone.
func ReadsMemory() error {
	child := exec.Command("/bin/sh", "-c", "read line")
	hold, err := child.StdinPipe() // its end ends the child
	if err != nil {
		return &Unavailable{Why: "no process can be tried", Err: err}
	}
	if err := child.Start(); err != nil {
		return &Unavailable{Why: "no process can be tried", Err: err}
	}
	memory, opened := os.Open("/proc/" + strconv.Itoa(child.Process.Pid) + "/mem")
	if opened == nil {
		_ = memory.Close()
	}
	_ = hold.Close()
	_ = child.Wait() // it read nothing, and says so
	if opened == nil {
		return nil
	}
	scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	return unreadable(strings.TrimSpace(string(scope)), opened)
}

// unreadable explains why memory cannot be read, by Yama's setting
// (Documentation/admin-guide/LSM/Yama.rst): with 1 an ancestor may, as we are one.
func unreadable(scope string, err error) *Unavailable {
	const what = "the memory of a subject cannot be read, so that its sends are told by their length alone"
	switch scope {
	case "2":
		return &Unavailable{Why: what, Mend: "Yama lets nobody but root (sysctl kernel.yama.ptrace_scope is 2; 1 is enough for deadwire)", Err: err}
	case "3":
		return &Unavailable{Why: what, Mend: "Yama lets nobody (sysctl kernel.yama.ptrace_scope is 3, until the next boot; 1 is enough for deadwire)", Err: err}
	default:
		return &Unavailable{Why: what, Mend: "allow ptrace (containers: --cap-add SYS_PTRACE)", Err: err}
	}
}
