package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"deadwire/pipeline/worker"
)

// The test binary is coordinator and worker alike, as the product is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "worker-mode":
			os.Exit(workerMode(os.Args[2:]))
		case "coordinator-mode":
			os.Exit(coordinatorMode())
		}
	}
	goleak.VerifyTestMain(m)
}

func workerMode(options []string) int {
	h := &handler{options: options}
	seam := worker.Seam{}
	for _, o := range options {
		switch {
		case o == "inherit":
			seam.Inherited = meet
		case o == "compute":
			seam.Compute = func(n int, job string) error { return fmt.Errorf("seam met %s in worker %d", job, n) }
		}
	}
	if err := worker.Serve(context.Background(), os.Stdin, os.Stdout, h, seam); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	return 0
}

// meet writes on the coordinator's session at once, and again when the worker leaves.
func meet(n int, socket *os.File) (func(), error) {
	if _, err := fmt.Fprintf(socket, "hello from %d\n", n); err != nil {
		return nil, err
	}
	return func() { fmt.Fprintf(socket, "bye from %d\n", n) }, nil
}

type handler struct {
	options []string
	number  int
	setup   string
}

type jobTypeError struct{}

func (jobTypeError) Error() string { return "no such card" }

func (h *handler) has(option string) bool {
	for _, o := range h.options {
		if o == option {
			return true
		}
	}
	return false
}

func (h *handler) Init(_ context.Context, number int, setup []byte) error {
	h.number, h.setup = number, string(setup)
	switch {
	case h.has("refuse"):
		return fmt.Errorf("build lexicon: %w", jobTypeError{})
	case h.has("die-in-init"):
		panic("no init today")
	case h.has("hang-in-init"):
		select {}
	}
	fmt.Fprintf(os.Stderr, "worker %d ready\n", number)
	return nil
}

func (h *handler) Do(_ context.Context, job worker.Job) (json.RawMessage, error) {
	verb, rest, _ := strings.Cut(job.ID, ":")
	switch verb {
	case "echo":
		return json.Marshal(fmt.Sprintf("%s/%s/%s/%d", rest, job.Args, h.setup, len(job.Body)))
	case "who":
		return json.Marshal([]int{h.number, os.Getpid()})
	case "error":
		return nil, fmt.Errorf("look up %s: %w", rest, jobTypeError{})
	case "panic":
		panic("compute blew up on " + rest)
	case "exit":
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(7)
	case "garble":
		fmt.Fprint(os.Stdout, "stray print to standard output")
	case "hang":
		if err := os.WriteFile(rest, nil, 0o600); err != nil {
			return nil, err
		}
		select {}
	case "until":
		if err := os.WriteFile(rest+".started", nil, 0o600); err != nil {
			return nil, err
		}
		return nil, waitForFile(rest)
	case "notjson":
		return json.RawMessage("{"), nil
	}
	return nil, nil
}

func (h *handler) Close() {
	fmt.Fprintf(os.Stderr, "worker %d leaves\n", h.number)
	if h.has("hang-in-close") {
		select {}
	}
}

// waitForFile returns once the file exists
func waitForFile(path string) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// coordinatorMode starts two workers, gives one a job that ends when told, says who they are, and then waits to be killed.
func coordinatorMode() int {
	ctx := context.Background()
	pool, err := worker.Start(ctx, worker.Config{Command: []string{"", "worker-mode"}, Workers: 2, Stderr: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if _, err := pool.Submit(ctx, worker.Job{ID: "until:" + os.Args[2]}); err != nil {
		return 1
	}
	_ = json.NewEncoder(os.Stdout).Encode(pool.PIDs())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}
