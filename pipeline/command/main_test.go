package command_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"deadwire/pipeline/cardgen"
	"deadwire/pipeline/command"
	"deadwire/pipeline/schema/schematest"
	"deadwire/pipeline/worker"
)

// The test binary is conveyor itself, coordinator and worker, when conveyorEnv is
// set; seamEnv then names what its seam does, holdEnv a file that stops jobs while it exists.
const (
	conveyorEnv = "CONVEYOR_TEST_MAIN"
	seamEnv     = "CONVEYOR_TEST_SEAM"
	holdEnv     = "CONVEYOR_TEST_HOLD"
	catalogEnv  = "CONVEYOR_TEST_CATALOG"
)

func TestMain(m *testing.M) {
	if os.Getenv(conveyorEnv) == "" {
		os.Exit(tests(m))
	}
	root := command.New(command.Options{Seam: seam(os.Getenv(seamEnv))})
	os.Exit(command.Main(context.Background(), root, os.Stderr))
}

// tests renders one catalogue for all tests, which only read it, and runs them.
func tests(m *testing.M) int {
	folder, err := os.MkdirTemp("", "conveyor-catalogue-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	spec := cardgen.Default(cards, 7)
	spec.Damaged = 0.1
	_, err = cardgen.Write(context.Background(), folder, spec)
	if err == nil {
		err = os.Setenv(catalogEnv, folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return schematest.Main(m)
}

// seam does to a real session and to real workers what historical bugs did.
func seam(name string) worker.Seam {
	switch name {
	case "owner-closes":
		return worker.Seam{BeforeStart: func(ctx context.Context, s worker.Inheritable) error { return s.Close(ctx) }}
	case "worker-terminates":
		return worker.Seam{Inherited: terminate}
	case "worker-holds":
		return worker.Seam{Inherited: func(int, *os.File) (func(), error) { return nil, nil }}
	case "job-waits":
		return worker.Seam{Compute: waitWhileHeld}
	case "job-panics":
		return worker.Seam{Compute: func(int, string) error { panic("no such card") }}
	case "card-kills":
		return worker.Seam{Compute: func(_ int, card string) error {
			if strings.HasPrefix(card, os.Getenv(holdEnv+"_CARD")) {
				panic("out of memory over " + card)
			}
			return nil
		}}
	case "job-fails":
		return worker.Seam{Compute: func(int, string) error { return errors.New("compute gave up") }}
	}
	return worker.Seam{}
}

// terminate sends the protocol's Terminate on the coordinator's session.
func terminate(number int, socket *os.File) (func(), error) {
	if number != 1 {
		return nil, nil
	}
	_, err := socket.Write([]byte{'X', 0, 0, 0, 4})
	return nil, err
}

// waitWhileHeld says that it waits, so that a test can act just then.
func waitWhileHeld(number int, job string) error {
	path := os.Getenv(holdEnv)
	told := false
	for ticker := time.NewTicker(5 * time.Millisecond); ; <-ticker.C {
		_, err := os.Stat(path)
		if err != nil {
			return nil
		}
		if !told {
			told = true
			fmt.Fprintf(os.Stderr, "{\"msg\":\"waiting\",\"worker\":%d,\"card\":%q}\n", number, strings.TrimSpace(job))
		}
	}
}
