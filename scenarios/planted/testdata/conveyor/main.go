// Command conveyor is cmd/conveyor with the fault seam and, in a build by package
// planted, with the bug that its own file is named for.
package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"syscall"

	"deadwire/faults/fork"
	"deadwire/pipeline/command"
	"deadwire/pipeline/worker"
)

func main() {
	runtime, err := fork.FromEnv(os.Getenv, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "planted:", err)
		os.Exit(2)
	}
	s := seam(runtime)
	if filepath.Base(os.Args[0]) == "planted-inherited-terminate" {
		s = terminates(s)
	}
	os.Exit(command.Main(context.Background(), command.New(command.Options{Seam: s}), os.Stderr))
}

// seam lets the faults of a scenario act, as deadwire's own conveyor does.
func seam(runtime *fork.Runtime) (s worker.Seam) {
	if runtime == nil {
		return s
	}
	runtime.Exit = os.Exit
	s.BeforeStart = func(ctx context.Context, session worker.Inheritable) error {
		return runtime.BeforeStart(ctx, session.Close)
	}
	s.Compute = runtime.Compute
	if runtime.Inherits() {
		s.Inherited = runtime.Inherited
	}
	return s
}

// oneCardIn says how rarely the bug shows.
const oneCardIn = 1200

// terminates adds to a seam a worker that ends its coordinator's session.
func terminates(sound worker.Seam) worker.Seam {
	var inherited *os.File
	planted := sound
	planted.Inherited = func(number int, socket *os.File) (func(), error) {
		inherited = socket
		if sound.Inherited == nil {
			return nil, nil
		}
		return sound.Inherited(number, socket)
	}
	planted.Compute = func(number int, card string) error {
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(card)) // never fails
		if sum.Sum32()%oneCardIn == 0 && inherited != nil {
			if conn, err := inherited.SyscallConn(); err == nil {
				_ = conn.Control(func(fd uintptr) { _ = syscall.Sendto(int(fd), []byte{'X', 0, 0, 0, 4}, 0, nil) })
			}
		}
		if sound.Compute == nil {
			return nil
		}
		return sound.Compute(number, card)
	}
	return planted
}
