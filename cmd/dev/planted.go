package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"deadwire/harness/report"
	"deadwire/scenarios/planted"
)

// search looks for planted bugs with the soak, as a release manager would.
type search struct {
	out      io.Writer
	dir      string
	deadwire string
	programs map[string]string
	seed     string
	duration time.Duration
}

const (
	plantedAgain = 20 // times that what was shrunk must fail alone
	plantedSound = 5  // times that the sound program must pass it
)

func plantedCommand() *cobra.Command {
	s := search{}
	var soak bool
	cmd := &cobra.Command{
		Use:   "planted [BUG...]",
		Short: "Build conveyor with a known bug planted, and with --search let the soak find and shrink it",
		Long:  plantedLong(),
		RunE: func(cmd *cobra.Command, bugs []string) (err error) {
			s.out = cmd.OutOrStdout()
			if len(bugs) == 0 {
				bugs = planted.Names()
			}
			if err := os.MkdirAll(s.dir, 0o755); err != nil {
				return err
			}
			if s.programs, err = planted.Build(cmd.Context(), s.dir, bugs...); err != nil {
				return err
			}
			if soak {
				return s.all(cmd.Context(), bugs)
			}
			for _, bug := range bugs {
				fmt.Fprintln(s.out, s.programs[bug])
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&s.dir, "out", filepath.Join(os.TempDir(), "deadwire-planted"), "`DIR` for programs and run folders")
	cmd.Flags().BoolVar(&soak, "search", false, "soak each program until its bug is found and shrunk, and run what remains alone")
	cmd.Flags().StringVar(&s.seed, "seed", "planted", "`TEXT` of the soak")
	cmd.Flags().DurationVar(&s.duration, "for", 30*time.Minute, "give up on a bug after that long")
	return cmd
}

func plantedLong() string {
	text := "The programs are for deadwire's --subject. The bugs:\n"
	for _, b := range planted.Bugs() {
		text += fmt.Sprintf("\n  %-20s %s", b.Name, b.Sentence)
	}
	return text
}

func (s *search) all(ctx context.Context, bugs []string) error {
	s.deadwire = filepath.Join(s.dir, "deadwire")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", s.deadwire, "./cmd/deadwire").CombinedOutput(); err != nil {
		return fmt.Errorf("build deadwire: %w: %s", err, out)
	}
	policy := filepath.Join(s.dir, "policy.yaml")
	// Many catalogues, since one bug needs a rare card, and work that is done again.
	if err := os.WriteFile(policy, []byte("{catalogues: 1000, redo: 4}\n"), 0o600); err != nil {
		return err
	}
	var errs []error
	for _, bug := range bugs {
		if err := s.one(ctx, bug, policy); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", bug, err))
		}
	}
	return errors.Join(errs...)
}

// soaked is what the search reads of a soak's result.
type soaked struct {
	Failures []struct {
		Round         int
		Before, After string
		Runs          int
		Repro         string
	}
}

// one soaks until the bug is found, then runs what remains alone.
func (s *search) one(ctx context.Context, bug, policy string) error {
	began := time.Now()
	file := filepath.Join(s.dir, bug+".json")
	err := s.run(ctx, file, "soak", "--for", s.duration.String(), "--seed", s.seed, "--policy", policy, "--subject", s.programs[bug], "--out", filepath.Join(s.dir, bug))
	if err != nil {
		return err
	}
	var result soaked
	if err := readJSON(file, &result); err != nil {
		return err
	}
	if len(result.Failures) == 0 {
		return fmt.Errorf("not found within %s", s.duration)
	}
	for _, f := range result.Failures {
		if f.Repro == "" {
			continue
		}
		fmt.Fprintf(s.out, "%s: round %d, %s with shrinking in %d runs\n  from %s\n  to   %s\n", bug, f.Round, time.Since(began).Round(time.Second), f.Runs, f.Before, f.After)
		return errors.Join(s.alone(ctx, bug, f.Repro, plantedAgain, "fail"), s.alone(ctx, "", f.Repro, plantedSound, "pass"))
	}
	return errors.New("found, and not shrunk")
}

// alone runs a scenario with one program so many times, and counts the verdict.
func (s *search) alone(ctx context.Context, bug, repro string, times int, want string) error {
	file := filepath.Join(s.dir, "alone.json")
	if err := s.run(ctx, file, "run", repro, "--count", strconv.Itoa(times), "--format", "quiet", "--subject", s.programs[bug], "--out", filepath.Join(s.dir, "alone")); err != nil {
		return err
	}
	var whole report.Run
	if err := readJSON(file, &whole); err != nil {
		return err
	}
	got := 0
	for _, c := range whole.Cases {
		if string(c.Verdict) == want {
			got++
		}
	}
	fmt.Fprintf(s.out, "  alone, %s: %s %d of %d\n", filepath.Base(s.programs[bug]), want, got, times)
	if got != times {
		return fmt.Errorf("%s: %s: %d of %d %s", repro, filepath.Base(s.programs[bug]), got, times, want)
	}
	return nil
}

// run starts deadwire and lets it say on stderr what it does. That it ends with
// verdict fail is no error here.
func (s *search) run(ctx context.Context, file string, args ...string) error {
	cmd := exec.CommandContext(ctx, s.deadwire, append(args, "--json", file)...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return nil
	}
	return err
}

func readJSON(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
