package tap

import (
	"net"
	"syscall"
)

// backlog of a listener that listens again; the kernel cuts it to net.core.somaxconn.
const backlog = 4096

// refuse stops or resumes listening without giving up the port. On Linux
// shutdown(SHUT_RD) turns a listening socket back into a bound one, so the kernel
// answers SYN with RST (ECONNREFUSED), and listen(2) undoes it. Connections that
// wait to be accepted are reset.
func refuse(l *net.TCPListener, on bool) error {
	conn, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = conn.Control(func(fd uintptr) {
		if on {
			result = syscall.Shutdown(int(fd), syscall.SHUT_RD)
			return
		}
		result = syscall.Listen(int(fd), backlog)
	})
	if err != nil {
		return err
	}
	return result
}
