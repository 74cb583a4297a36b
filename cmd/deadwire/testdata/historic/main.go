// Command historic is conveyor with the bug of old put back: each worker closes
// the session that it inherited from its coordinator, as a database library
// does. The tests pass it as --subject, to see the fixed cases turn red.
package main

import (
	"context"
	"os"
	"syscall"

	"deadwire/pipeline/command"
	"deadwire/pipeline/worker"
)

func main() {
	seam := worker.Seam{Inherited: func(_ int, socket *os.File) (func(), error) {
		conn, err := socket.SyscallConn()
		if err != nil {
			return nil, err
		}
		return nil, conn.Control(func(fd uintptr) {
			// The other workers do the same; only the first one finds the session alive.
			_ = syscall.Sendto(int(fd), []byte{'X', 0, 0, 0, 4}, 0, nil)
		})
	}}
	os.Exit(command.Main(context.Background(), command.New(command.Options{Seam: seam}), os.Stderr))
}
