package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"deadwire/faults/catalog"
	"deadwire/harness/rundir"
	"deadwire/harness/verdict"
	"deadwire/scenarios"
)

// jobs returns the cases that the arguments choose, in order, f.count times.
func (f *runFlags) jobs(args []string) ([]job, error) {
	all, err := scenarios.Builtin()
	if err != nil {
		return nil, err
	}
	var chosen []job
	if f.lastFailed && len(args) > 0 {
		return nil, usageError("--last-failed and %s: name what to run, or let --last-failed choose it", args[0])
	}
	if f.lastFailed {
		chosen, err = f.failedLast(all)
	} else {
		chosen, err = choose(all, args)
	}
	if err != nil {
		return nil, err
	}
	if len(chosen) == 0 {
		return nil, &exitError{code: verdict.ExitNothing, err: errNothing}
	}
	return repeated(chosen, f.count), nil
}

// repeated returns the jobs count times over, numbered if they are more than one.
func repeated(jobs []job, count int) []job {
	if count == 1 {
		return jobs
	}
	var all []job
	for n := range count {
		for _, j := range jobs {
			j.iteration = n + 1
			all = append(all, j)
		}
	}
	return all
}

// failedLast returns the cases that failed last time, and takes their seed over.
func (f *runFlags) failedLast(all []scenarios.Scenario) ([]job, error) {
	last, err := rundir.ReadLast(f.out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usageError("--last-failed: nothing has been run in %s yet", f.out)
	}
	if err != nil {
		return nil, usageError("--last-failed: %w", err)
	}
	var chosen []job
	for _, failed := range last.Failed {
		j, err := lookup(all, failed)
		if err != nil {
			return nil, fmt.Errorf("--last-failed: %w", err)
		}
		chosen = append(chosen, j)
		if f.seed == "" {
			f.seed = failed.Seed
		}
	}
	if f.subject == "" {
		f.subject = last.Subject
	}
	return chosen, nil
}

// lookup returns the case that a stored run names.
func lookup(all []scenarios.Scenario, c rundir.Failed) (job, error) {
	from := jobsOf(all)
	if c.File != "" {
		var err error
		if from, err = inFile(c.File, ""); err != nil {
			return job{}, err
		}
	}
	i := slices.IndexFunc(from, func(j job) bool { return j.scenario.Name == c.Scenario && j.c.Name == c.Case })
	if i < 0 {
		return job{}, usageError("there is no %s/%s any more", c.Scenario, c.Case)
	}
	return from[i], nil
}

func jobsOf(all []scenarios.Scenario) []job {
	var jobs []job
	for _, s := range all {
		for _, c := range s.Cases {
			jobs = append(jobs, job{scenario: s, c: c})
		}
	}
	return jobs
}

// choose resolves names, globs, NAME/CASE and files, each case once.
func choose(all []scenarios.Scenario, args []string) ([]job, error) {
	if len(args) == 0 {
		return jobsOf(all), nil
	}
	var chosen []job
	for _, arg := range args {
		found, err := resolve(all, arg)
		if err != nil {
			return nil, err
		}
		for _, j := range found {
			if !slices.ContainsFunc(chosen, func(c job) bool { return c.name() == j.name() }) {
				chosen = append(chosen, j)
			}
		}
	}
	return chosen, nil
}

func resolve(all []scenarios.Scenario, arg string) ([]job, error) {
	if file, wanted, ok := fileOf(arg); ok {
		return inFile(file, wanted)
	}
	name, wantCase, hasCase := strings.Cut(arg, "/")
	var found []job
	for _, j := range jobsOf(all) {
		if matches(name, j.scenario.Name) && (!hasCase || matches(wantCase, j.c.Name)) {
			found = append(found, j)
		}
	}
	if len(found) > 0 || strings.ContainsAny(arg, "*?[") {
		return found, nil
	}
	return nil, unknown(all, name, wantCase)
}

// fileOf splits FILE.yaml or FILE.yaml/CASE.
func fileOf(arg string) (file, wanted string, ok bool) {
	for _, ending := range []string{".yaml", ".yml"} {
		if strings.HasSuffix(arg, ending) {
			return arg, "", true
		}
		if dir, base := path.Split(arg); strings.HasSuffix(dir, ending+"/") {
			return strings.TrimSuffix(dir, "/"), base, true
		}
	}
	return "", "", false
}

// inFile returns the cases of a scenario file, or those that match wanted.
func inFile(file, wanted string) ([]job, error) {
	s, err := scenarios.ReadFile(file)
	if err != nil {
		return nil, usageError("%w", err)
	}
	all := jobsOf([]scenarios.Scenario{s})
	if abs, err := filepath.Abs(file); err == nil {
		for n := range all {
			all[n].file = abs
		}
	}
	if wanted == "" {
		return all, nil
	}
	found := slices.DeleteFunc(slices.Clone(all), func(j job) bool { return !matches(wanted, j.c.Name) })
	if len(found) == 0 && !strings.ContainsAny(wanted, "*?[") {
		return nil, unknown([]scenarios.Scenario{s}, s.Name, wanted)
	}
	return found, nil
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

func unknown(all []scenarios.Scenario, name, wantCase string) error {
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
		if s.Name != name {
			continue
		}
		var cases []string
		for _, c := range s.Cases {
			cases = append(cases, c.Name)
		}
		return usageError("unknown case %q of %s%s", wantCase, name, catalog.Suggest(wantCase, cases))
	}
	return usageError("unknown scenario %q%s\nsee: deadwire list", name, catalog.Suggest(name, names))
}
