package main

import (
	"context"
	"fmt"
	"os"

	"deadwire/faults/fork"
	"deadwire/harness/verdict"
	"deadwire/pipeline/command"
	"deadwire/pipeline/worker"
)

const conveyorName = "conveyor"

// conveyor runs the pipeline's own commands, with the fault seam filled by what
// the environment asks for.
func conveyor(args []string) int {
	runtime, err := fork.FromEnv(os.Getenv, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "deadwire:", err)
		return verdict.ExitUsage
	}
	root := command.New(command.Options{WorkerArgs: []string{conveyorName, "worker"}, Seam: seam(runtime)})
	root.SetArgs(args)
	return command.Main(context.Background(), root, os.Stderr)
}

func seam(runtime *fork.Runtime) worker.Seam {
	if runtime == nil {
		return worker.Seam{}
	}
	runtime.Exit = os.Exit
	s := worker.Seam{
		BeforeStart: func(ctx context.Context, session worker.Inheritable) error {
			return runtime.BeforeStart(ctx, session.Close)
		},
		Compute: runtime.Compute,
	}
	if runtime.Inherits() {
		s.Inherited = runtime.Inherited
	}
	return s
}
