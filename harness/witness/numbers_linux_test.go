package witness

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
)

func TestNumbersAreThoseOfThisKernel(t *testing.T) {
	t.Parallel()
	n, _ := numbersOf(runtime.GOARCH)
	assert.DeepEqual(t,
		[]uint32{n.sendto, n.write, n.writev, n.sendmsg, n.sendmmsg, n.connect, n.shutdown, n.execve, n.execveat, n.exitGroup},
		[]uint32{
			unix.SYS_SENDTO, unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_SENDMSG, unix.SYS_SENDMMSG, unix.SYS_CONNECT,
			unix.SYS_SHUTDOWN, unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_EXIT_GROUP,
		})
}

func TestParseSockaddr(t *testing.T) {
	t.Parallel()
	family := func(number byte, rest ...byte) []byte { return append([]byte{number, 0}, rest...) }
	six := append([]byte{0x15, 0x38, 0, 0, 0, 0}, make([]byte, 15)...)
	for name, tc := range map[string]struct {
		raw  []byte
		text string
	}{
		"IPv4":            {family(unix.AF_INET, 0x15, 0x38, 127, 0, 0, 1), "127.0.0.1:5432"},
		"IPv6":            {family(unix.AF_INET6, append(six, 1)...), "[::1]:5432"},
		"path":            {family(unix.AF_UNIX, append([]byte("/run/pg"), 0, 9)...), "unix:/run/pg"},
		"path to the end": {family(unix.AF_UNIX, []byte("/run/pg")...), "unix:/run/pg"},
		"abstract name":   {family(unix.AF_UNIX, append([]byte{0}, "pg"...)...), "unix:@pg"},
		"netlink":         {family(unix.AF_NETLINK, make([]byte, 10)...), ""},
		"short IPv4":      {family(unix.AF_INET, 1, 2), ""},
		"short IPv6":      {family(unix.AF_INET6, 1, 2), ""},
		"nothing":         {nil, ""},
	} {
		text, named := parseSockaddr(tc.raw)
		assert.Equal(t, text, tc.text, name)
		assert.Equal(t, named, tc.text != "", name)
	}
}
