package witness

import (
	"slices"

	// x/net/bpf: a typed assembler with a virtual machine, so that the filter is
	// readable here and its decisions can be tested without a kernel.
	"golang.org/x/net/bpf"
)

// sends of interest, in bytes: a Terminate message, one glued behind a Sync, and
// under TLS a close_notify and an encrypted message of five bytes: in TLS 1.3, and
// in TLS 1.2 with ChaCha20 and with AES-GCM
const (
	terminateBytes     = 5
	syncTerminateBytes = 10

	closeNotifyBytes       = 24
	closeNotifyChaChaBytes = 23
	closeNotifyGCMBytes    = 31
	tlsTerminateBytes      = 27
	tlsTerminateChaCha     = 26
	tlsTerminateGCM        = 34
	vectorsMax             = 2 // libpq and most drivers write a Terminate from one or two parts
)

// verdicts of a filter, from linux/seccomp.h; here because the filter is built
// and tested on every platform
const (
	retAllow  = 0x7fff0000
	retNotify = 0x7fc00000
	retErrno  = 0x00050000
	enosys    = 38
)

// ioUringSetup has the same number on every architecture.
const ioUringSetup = 425

// choice is what a filter is built for.
type choice struct {
	sends SendFilter
	tls   bool
	ring  bool // refuse io_uring
}

// offsets into struct seccomp_data; both supported architectures are little
// endian, so the low half of an argument comes first
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// numbers are the system calls that a filter knows, on one architecture.
type numbers struct {
	arch                                           uint32
	sendto, write, writev, sendmsg, sendmmsg       uint32
	connect, shutdown, execve, execveat, exitGroup uint32
}

// numbersOf returns the system call numbers of a GOARCH, false if it has none here.
func numbersOf(goarch string) (numbers, bool) {
	switch goarch {
	case "amd64":
		return numbers{
			arch: 0xc000003e, sendto: 44, write: 1, writev: 20, sendmsg: 46, sendmmsg: 307,
			connect: 42, shutdown: 48, execve: 59, execveat: 322, exitGroup: 231,
		}, true
	case "arm64":
		return numbers{
			arch: 0xc00000b7, sendto: 206, write: 64, writev: 66, sendmsg: 211, sendmmsg: 269,
			connect: 203, shutdown: 210, execve: 221, execveat: 281, exitGroup: 94,
		}, true
	default:
		return numbers{}, false
	}
}

// filter returns the program that picks the calls to stop at. It denies nothing,
// but io_uring on request; a foreign architecture (a 32-bit child) is let through
// unseen.
func filter(n numbers, want choice) []bpf.Instruction {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: n.arch, SkipTrue: 1},
		bpf.RetConstant{Val: retAllow},
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
	}
	always := []uint32{n.sendmsg, n.sendmmsg, n.connect, n.shutdown, n.execve, n.execveat, n.exitGroup}
	if want.ring {
		program = append(program, onCall(ioUringSetup, []bpf.Instruction{bpf.RetConstant{Val: retErrno | enosys}})...)
	}
	if want.sends == Senders {
		program = append(program, onCall(n.write, onStream())...)
		program = append(program, onCall(n.writev, onStream())...)
	}
	if want.sends != Endings {
		always = append(always, n.sendto, n.write, n.writev)
	}
	for _, number := range always {
		program = append(program, onCall(number, []bpf.Instruction{bpf.RetConstant{Val: retNotify}})...)
	}
	lengths := []uint32{terminateBytes, syncTerminateBytes}
	if want.tls {
		lengths = append(lengths, closeNotifyBytes, closeNotifyChaChaBytes, closeNotifyGCMBytes,
			tlsTerminateBytes, tlsTerminateChaCha, tlsTerminateGCM)
	}
	program = append(program, onCall(n.sendto, whenThird(bpf.JumpEqual, lengths))...)
	program = append(program, onCall(n.write, whenThird(bpf.JumpEqual, lengths))...)
	program = append(program, onCall(n.writev, whenThird(bpf.JumpLessOrEqual, []uint32{vectorsMax}))...)
	return append(program, bpf.RetConstant{Val: retAllow})
}

// onStream allows a call whose first argument is a standard stream's descriptor,
// and goes on with the number loaded again otherwise.
func onStream() []bpf.Instruction {
	const stderr = 2
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArgs, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: stderr, SkipTrue: 1},
		bpf.RetConstant{Val: retAllow},
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
	}
}

// onCall runs block if the call has this number; a block that does not return
// must leave the number loaded.
func onCall(number uint32, block []bpf.Instruction) []bpf.Instruction {
	return slices.Concat(
		[]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: number, SkipFalse: uint8(len(block))}}, block)
}

// whenThird notifies if the call's third argument compares true with one of vals.
func whenThird(cond bpf.JumpTest, vals []uint32) []bpf.Instruction {
	const third = offsetArgs + 2*8
	count := uint8(len(vals))
	block := []bpf.Instruction{
		bpf.LoadAbsolute{Off: third + 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: count + 1},
		bpf.LoadAbsolute{Off: third, Size: 4},
	}
	for i, val := range vals {
		block = append(block, bpf.JumpIf{Cond: cond, Val: val, SkipTrue: count - uint8(i)})
	}
	return append(block, bpf.RetConstant{Val: retAllow}, bpf.RetConstant{Val: retNotify})
}
