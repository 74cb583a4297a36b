package witness

import (
	"encoding/binary"
	"runtime"
	"testing"

	"golang.org/x/net/bpf"
	"gotest.tools/v3/assert"
)

// seccompData is one call as the filter sees it. The virtual machine reads big
// endian words where the kernel reads native ones, so each word is put so.
func seccompData(arch, number uint32, first, third uint64) []byte {
	raw := make([]byte, 64)
	binary.BigEndian.PutUint32(raw[offsetNumber:], number)
	binary.BigEndian.PutUint32(raw[offsetArch:], arch)
	binary.BigEndian.PutUint32(raw[offsetArgs:], uint32(first))
	binary.BigEndian.PutUint32(raw[offsetArgs+16:], uint32(third))
	binary.BigEndian.PutUint32(raw[offsetArgs+20:], uint32(third>>32))
	return raw
}

// filterCase is one system call, and what the filter does with it.
type filterCase struct {
	name   string
	arch   uint32
	number uint32
	third  uint64
	sends  SendFilter
	tls    bool
	ring   bool
	denied bool
	first  uint64
	stops  bool
}

func filterCases(n numbers) []filterCase {
	const getpid = 9999
	return []filterCase{
		{name: "Terminate by send", number: n.sendto, third: 5, stops: true},
		{name: "Terminate by write", number: n.write, third: 5, stops: true},
		{name: "Sync and Terminate", number: n.write, third: 10, stops: true},
		{name: "another length", number: n.sendto, third: 6},
		{name: "a length of 4 GiB and five", number: n.write, third: 1<<32 + 5},
		{name: "encrypted Terminate without TLS", number: n.write, third: 27},
		{name: "encrypted Terminate", number: n.write, third: 27, tls: true, stops: true},
		{name: "close_notify", number: n.sendto, third: 24, tls: true, stops: true},
		{name: "short vector", number: n.writev, third: 1, stops: true},
		{name: "vector of two", number: n.writev, third: 2, stops: true},
		{name: "long vector", number: n.writev, third: 3},
		{name: "long vector when all are wanted", number: n.writev, third: 3, sends: All, stops: true},
		{name: "any write when all are wanted", number: n.write, third: 4096, sends: All, stops: true},
		{name: "sendmsg", number: n.sendmsg, third: 77, stops: true},
		{name: "several messages", number: n.sendmmsg, third: 2, stops: true},
		{name: "connect", number: n.connect, third: 16, stops: true},
		{name: "shutdown", number: n.shutdown, stops: true},
		{name: "execve", number: n.execve, stops: true},
		{name: "execveat", number: n.execveat, stops: true},
		{name: "exit", number: n.exitGroup, stops: true},
		{name: "encrypted Terminate of TLS 1.2", number: n.sendto, third: 34, tls: true, stops: true},
		{name: "a send when senders are wanted", number: n.sendto, first: 7, third: 4096, sends: Senders, stops: true},
		{name: "a write when senders are wanted", number: n.write, first: 7, third: 4096, sends: Senders, stops: true},
		{name: "a vector when senders are wanted", number: n.writev, first: 7, third: 9, sends: Senders, stops: true},
		{name: "output when senders are wanted", number: n.write, first: 1, third: 5, sends: Senders},
		{name: "output in a vector when senders are wanted", number: n.writev, first: 2, third: 1, sends: Senders},
		{name: "io_uring", number: ioUringSetup},
		{name: "io_uring when it is refused", number: ioUringSetup, ring: true, denied: true},
		{name: "a call of no interest", number: getpid, third: 5},
		{name: "a foreign architecture", arch: 0x40000003, number: n.connect},
	}
}

func TestFilterStopsAtTheCallsThatMatter(t *testing.T) {
	t.Parallel()
	for _, arch := range []string{"amd64", "arm64"} {
		n, known := numbersOf(arch)
		assert.Assert(t, known)
		for _, tc := range filterCases(n) {
			t.Run(arch+"/"+tc.name, func(t *testing.T) {
				t.Parallel()
				vm, err := bpf.NewVM(filter(n, choice{sends: tc.sends, tls: tc.tls, ring: tc.ring}))
				assert.NilError(t, err)
				if tc.arch == 0 {
					tc.arch = n.arch
				}
				verdict, err := vm.Run(seccompData(tc.arch, tc.number, tc.first, tc.third))
				assert.NilError(t, err)
				assert.Equal(t, verdict == retNotify, tc.stops)
				assert.Equal(t, verdict == retErrno|enosys, tc.denied)
				assert.Assert(t, tc.denied || verdict == retNotify || verdict == retAllow)
			})
		}
	}
}

func TestNumbersAreUnknownElsewhere(t *testing.T) {
	t.Parallel()
	_, known := numbersOf("riscv64")
	assert.Assert(t, !known)
	_, known = numbersOf(runtime.GOARCH)
	assert.Equal(t, known, runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64")
}
