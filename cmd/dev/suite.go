package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"deadwire/harness/report"
)

// suiteRows compares the time that all built-in scenarios take together with the sum
// of what each of them takes.
func suiteRows() []Row {
	var last struct{ wall float64 } // of the run that the row before has made
	return []Row{
		{Name: "suite/sum", Unit: "s", Prepare: func(ctx context.Context, b *Bench) (Measure, error) {
			program, err := b.build(ctx, "deadwire")
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) (sum float64, err error) {
				sum, last.wall, err = b.suite(ctx, program)
				return sum, err
			}, nil
		}},
		{Name: "suite/wall", Unit: "s", Limit: "<= 0.6 (and <= 20 s on 2 quiet cores)", Prepare: func(context.Context, *Bench) (Measure, error) {
			return func(context.Context) (float64, error) {
				if last.wall == 0 {
					return 0, errors.New("it is measured with suite/sum: choose both")
				}
				return last.wall, nil
			}, nil
		}},
	}
}

// suite runs all scenarios once and returns the sum of their durations and the time
// that they took together, both in seconds.
func (b *Bench) suite(ctx context.Context, program string) (sum, wall float64, err error) {
	dir, err := b.tempDir("suite")
	if err != nil {
		return 0, 0, err
	}
	file := filepath.Join(dir, "result.json")
	out, err := exec.CommandContext(ctx, program, "run", "--format", "quiet", "--json", file, "--out", filepath.Join(dir, "out")).CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("run the suite: %w: %s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, fmt.Errorf("read the suite's result: %w", err)
	}
	var run report.Run
	if err := json.Unmarshal(text, &run); err != nil {
		return 0, 0, fmt.Errorf("read the suite's result: %w", err)
	}
	for _, c := range run.Cases {
		sum += seconds(c.DurationMS)
	}
	return sum, seconds(run.DurationMS), nil
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

// build compiles a program of this module and returns its path.
func (b *Bench) build(ctx context.Context, name string) (string, error) {
	dir, err := b.tempDir("bin")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "deadwire/cmd/"+name).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, out)
	}
	return path, nil
}
