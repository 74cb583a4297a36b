package witness

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filterFlags: a listener to hear by, and calls that are not restarted by every
// signal while we look. Without the latter a program with a fast timer crawls.
const filterFlags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV

// Available returns nil if subjects can be started under the exact witness, or
// an *Unavailable. It installs nothing: the kernel checks the flags before it
// looks at the program, and no program is given.
func Available() error {
	if _, known := numbersOf(runtime.GOARCH); !known {
		return &Unavailable{
			Why:  "the filter knows no system call numbers of " + runtime.GOARCH,
			Mend: "use amd64 or arm64, or go on with holders",
		}
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, filterFlags, 0)
	switch errno {
	case unix.EFAULT:
		return listening()
	case unix.EINVAL:
		return &Unavailable{
			Why:  "this kernel has no seccomp notification that waits out signals",
			Mend: "use Linux 5.19 or later, or go on with holders", Err: errno,
		}
	default:
		return &Unavailable{
			Why:  "seccomp filters are not allowed here",
			Mend: "allow the seccomp system call (in Docker: the default profile does), or go on with holders", Err: errno,
		}
	}
}

// listening returns an error if this process already lives under a filter with
// a listener, as below another deadwire: the kernel allows one for each chain.
// Only an attempt can tell, so it is made by a thread that then ends.
func listening() error {
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil || !bytes.Contains(status, []byte("Seccomp:\t2")) {
		return nil
	}
	tried := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, the filter with it
		tried <- tryListening()
	}()
	return <-tried
}

func tryListening() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return &Unavailable{Why: "privileges cannot be given up here", Err: err}
	}
	allow := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: retAllow}}
	fd, err := install(allow)
	if err != nil {
		return refusal(err)
	}
	return unix.Close(fd)
}

// install puts a filter on this thread and returns the listener.
func install(program []unix.SockFilter) (int, error) {
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, filterFlags,
		uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// refusal explains why the kernel did not install a filter.
func refusal(err error) error {
	if errors.Is(err, unix.EBUSY) {
		return &Unavailable{
			Why:  "another seccomp listener is already above this process",
			Mend: "do not run deadwire below deadwire, or go on with holders", Err: err,
		}
	}
	return &Unavailable{Why: "the kernel refused the filter", Mend: "go on with holders", Err: err}
}
