package witness_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"deadwire/harness/event"
	"deadwire/harness/subject"
	"deadwire/harness/witness"

	"golang.org/x/sys/unix"
)

// The roles are programs under test. They talk in lines, in one write each, so
// that lines of several processes never mix.

const terminateMessage = "X\x00\x00\x00\x04"

func say(format string, args ...any) {
	_, _ = os.Stdout.WriteString(fmt.Sprintf(format, args...) + "\n")
}

func play(role string) int {
	switch role {
	case "sharer":
		return sharer()
	case "inheritor":
		return inheritor()
	case "nested":
		return nested()
	case "supervised":
		return supervised()
	case "survivor":
		return survivor()
	case "supervisor":
		return superviseAndWait()
	default:
		say("unknown role %s", role)
		return 2
	}
}

// sharer opens sessions one by one. Each is inherited by a child, and by turns
// one of the two says Terminate, in one of several ways.
func sharer() int {
	trials, _ := strconv.Atoi(os.Getenv("TRIALS"))
	if os.Getenv("BUSY") != "" {
		for range runtime.NumCPU() {
			go func() {
				for sum := sha256.Sum256(nil); ; { // a hog, on purpose
					sum = sha256.Sum256(sum[:])
				}
			}()
		}
	}
	for trial := range trials {
		if err := share(trial); err != nil {
			say("error %v", err)
			return 1
		}
	}
	say("done")
	return 0
}

func share(trial int) error {
	fd, err := dial(os.Getenv("SERVER"))
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	defer syscall.Close(fd) //nolint:errcheck // a fault of the trial shows elsewhere
	fromChild, toUs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer fromChild.Close() //nolint:errcheck // as above
	theirs, release, err := os.Pipe()
	if err != nil {
		return err
	}
	defer release.Close() //nolint:errcheck // as above
	byChild := trial%2 == 0
	child, err := syscall.ForkExec("/proc/self/exe", []string{"inheritor"}, &syscall.ProcAttr{
		// The race detector's parting second would be most of a trial.
		Env:   []string{"GORACE=atexit_sleep_ms=0", roleVariable + "=inheritor", fmt.Sprint("SEND=", byChild), fmt.Sprint("TRIAL=", trial)},
		Files: []uintptr{theirs.Fd(), toUs.Fd(), 2, uintptr(fd)},
	})
	if err != nil {
		return fmt.Errorf("fork: %w", err)
	}
	_, _ = toUs.Close(), theirs.Close()
	if _, err := bufio.NewReader(fromChild).ReadString('\n'); err != nil {
		return fmt.Errorf("hear from the child: %w", err)
	}
	sender := child
	if !byChild {
		sender = os.Getpid()
		if err := hangUp(fd, trial); err != nil {
			return fmt.Errorf("hang up: %w", err)
		}
	}
	say("trial %d sender %d parent %d child %d", trial+1, sender, os.Getpid(), child)
	_ = release.Close()
	_, err = syscall.Wait4(child, nil, 0, nil)
	return err
}

// inheritor holds descriptor 3, sends on it if told so, and waits to be released.
func inheritor() int {
	trial, _ := strconv.Atoi(os.Getenv("TRIAL"))
	if os.Getenv("SEND") == "true" {
		if err := hangUp(3, trial); err != nil {
			return 1
		}
	}
	say("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return 0
}

// hangUp sends Terminate in one of the ways that drivers use.
func hangUp(fd, trial int) error {
	message := []byte(terminateMessage)
	switch trial / 2 % 6 {
	case 0:
		_, err := syscall.Write(fd, message)
		return err
	case 1:
		return syscall.Sendto(fd, message, syscall.MSG_NOSIGNAL, nil)
	case 2:
		_, err := unix.Writev(fd, [][]byte{message[:1], message[1:]})
		return err
	case 3:
		return unix.Sendmsg(fd, message, nil, nil, 0)
	case 4:
		_, err := syscall.Write(fd, []byte("S\x00\x00\x00\x04"+terminateMessage))
		return err
	default:
		_, err := unix.SendmsgBuffers(fd, [][]byte{[]byte("Q\x00\x00\x00\x06;\x00"), message}, nil, nil, 0)
		return err
	}
}

// dial connects a plain blocking socket that children inherit only when told.
func dial(address string) (int, error) {
	target, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		return -1, err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	to := &syscall.SockaddrInet4{Port: target.Port}
	copy(to.Addr[:], target.IP.To4())
	if err := syscall.Connect(fd, to); err != nil {
		return -1, err
	}
	// The far end speaks once it has told the witness, as a tap does by relaying.
	_, err = syscall.Read(fd, make([]byte, 1))
	return fd, err
}

// nested starts a subject of its own below a witness.
func nested() int {
	journal := event.NewJournal(nil, 0)
	w := witness.New(witness.Options{Recorder: journal})
	i, err := subject.Start(context.Background(),
		subject.Command{Path: "/bin/echo", Args: []string{"inner"}, Stdout: os.Stdout},
		subject.Options{Recorder: journal, Witness: w})
	if err != nil {
		say("error %v", err)
		return 1
	}
	_, err = i.Wait(context.Background())
	for _, e := range journal.Events() {
		if e.Kind == event.WitnessFailed {
			say("fell back: %s", e.Step.Note)
		}
	}
	say("certainty %s %s", w.Certainty(), i.Certainty())
	say("closed %v %v", i.Close(context.Background()), w.Close(context.Background()))
	if err != nil {
		return 1
	}
	return 0
}

// superviseAndWait starts the supervised program in a session of its own and
// is then killed. The program's root dies with it, its child does not.
func superviseAndWait() int {
	journal := event.NewJournal(nil, 0)
	i, err := subject.Start(context.Background(),
		subject.Command{
			Path: "/proc/self/exe", Stdin: os.Stdin, OwnStdout: os.Stdout, OwnStderr: os.Stderr,
			Env: []string{roleVariable + "=supervised"},
		},
		subject.Options{Recorder: journal, Witness: witness.New(witness.Options{Recorder: journal})})
	if err != nil {
		say("error %v", err)
		return 1
	}
	<-i.Exited()
	return 0
}

// supervised starts a child that will outlive the supervisor.
func supervised() int {
	child, err := syscall.ForkExec("/proc/self/exe", []string{"survivor"}, &syscall.ProcAttr{
		Env: []string{roleVariable + "=survivor"}, Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		return 1
	}
	_, _ = syscall.Wait4(child, nil, 0, nil)
	return 0
}

// survivor waits for a line, then tries a filtered call with it, a send of five
// bytes, and says how it went.
func survivor() int {
	say("child %d", os.Getpid())
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	_, err := syscall.Write(1, []byte(strings.TrimSpace(line)))
	say(": %v", err)
	return 0
}
