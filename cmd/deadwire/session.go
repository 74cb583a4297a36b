package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"deadwire/faults/catalog"
	"deadwire/faults/process"
	"deadwire/harness"
	"deadwire/harness/janitor"
	"deadwire/harness/pg/docker"
	"deadwire/harness/pg/source"
	"deadwire/harness/report"
	"deadwire/harness/report/html"
	"deadwire/harness/report/jsonl"
	"deadwire/harness/report/junit"
	"deadwire/harness/report/terminal"
	"deadwire/harness/rundir"
	"deadwire/harness/verdict"
	"deadwire/scenarios"
	"deadwire/scenarios/workload"
)

// common are the flags that run and its relatives share.
type common struct {
	postgres    string
	image       string
	allowRemote bool
	seed        string
	out         string
	format      string
	json        string
	junit       string
	html        string
	keep        bool
	proxyAPI    string
	asIs        bool // a URL's server is used as it stands; nothing is made in it
}

func (f *common) register(flags *pflag.FlagSet) {
	f.registerSoak(flags)
	flags.StringVar(&f.format, "format", "list", "list, dots, json or quiet")
	flags.StringVar(&f.junit, "junit", "", "also write the result to `FILE` as JUnit XML")
	flags.StringVar(&f.html, "html", "", "also write the result to `FILE` as one HTML page")
}

// registerSoak adds the flags that a soak has too: it has lines of its own, and no
// cases that JUnit could list.
func (f *common) registerSoak(flags *pflag.FlagSet) {
	flags.StringVar(&f.postgres, "postgres", "auto", "where PostgreSQL comes from: "+source.Syntax)
	flags.StringVar(&f.image, "postgres-image", "", "`IMAGE` for --postgres=docker (default: "+docker.DefaultImage+")")
	flags.BoolVar(&f.allowRemote, "allow-remote", false, "allow a URL that is not on this machine")
	flags.StringVar(&f.seed, "seed", "", "`TEXT` from which everything random follows (default: a new one)")
	flags.StringVar(&f.out, "out", rundir.DefaultRoot, "`DIR` for run folders")
	flags.StringVar(&f.json, "json", "", "also write the result to `FILE` as one JSON object")
	flags.BoolVar(&f.keep, "keep", false, "keep all older run folders")
	flags.StringVar(&f.proxyAPI, "proxy-api", "", "`ADDRESS` of Toxiproxy's HTTP interface (default: a free port)")
}

// checkFiles refuses, before anything has run, files that could not be written after it.
func (f *common) checkFiles() error {
	for flag, path := range map[string]string{"json": f.json, "junit": f.junit, "html": f.html} {
		if path == "" {
			continue
		}
		dir := filepath.Dir(path)
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return usageError("--%s %s: there is no folder %s: make it, or name another file", flag, path, dir)
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return usageError("--%s %s: that is a folder: name a file", flag, path)
		}
	}
	return nil
}

// session is a run of ours: its folder, its lease, its rig.
type session struct {
	seed  string
	dir   *rundir.Dir
	lease *janitor.Lease
	rig   *harness.Rig
	store *workload.Store
}

// open prepares everything that a run needs, in the order in which a failure
// costs least, and sweeps what a killed run left.
func (f *common) open(ctx context.Context) (s *session, err error) {
	if err := f.checkFiles(); err != nil {
		return nil, err
	}
	provider, err := f.provider(ctx)
	if err != nil {
		return nil, err
	}
	s = &session{seed: f.seed}
	if s.seed == "" {
		s.seed = newSeed()
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	_, err = janitor.Sweep(ctx, "",
		janitor.Remover{Kind: process.CgroupKind, Remove: process.RemoveCgroup},
		janitor.Remover{Kind: docker.Kind, Remove: docker.Remove})
	if err != nil {
		// What is left is not worth refusing to work for, but worth a word.
		fmt.Fprintln(os.Stderr, "deadwire: sweep after an earlier run:", err)
	}
	keep := 0
	if f.keep {
		keep = -1
	}
	if s.dir, err = rundir.Create(rundir.Options{Root: f.out, Version: Version, Seed: s.seed, Keep: keep}); err != nil {
		return s, err
	}
	if s.lease, err = janitor.Acquire(""); err != nil {
		return s, environment(err)
	}
	s.rig, err = harness.New(ctx, harness.Config{
		Provider: provider, LogFile: s.dir.File("postgres.log"), Owner: s.lease,
		Env: []string{s.lease.Env()}, ProxyAPI: f.proxyAPI,
	})
	if err != nil {
		return s, environment(err)
	}
	return s, s.dir.SetVersions(map[string]string{"postgres": s.rig.Server().Version().String()})
}

func environment(err error) error { return &exitError{code: verdict.ExitEnvironment, err: err} }

// newSeed returns a short random seed.
func newSeed() string {
	return strings.ToLower(rand.Text()[:8])
}

func (s *session) close(ctx context.Context) error {
	var errs []error
	if s.store != nil {
		errs = append(errs, s.store.Close(context.WithoutCancel(ctx)))
	}
	if s.rig != nil {
		errs = append(errs, s.rig.Close(ctx))
	}
	if s.lease != nil {
		errs = append(errs, s.lease.Release())
	}
	if s.dir != nil {
		errs = append(errs, s.dir.Close())
	}
	return errors.Join(errs...)
}

// shortLived returns what makes the start of conveyor's processes cheap, of which a
// run starts hundreds: the container library, which is linked in as well and of no
// use to them, does not read the whole machine's list of processes (gopsutil's
// HOST_PROC), and the collector does not begin before there is work.
func shortLived() []string { return []string{"HOST_PROC=/dev/null", "GOGC=400"} }

// runner returns what carries out scenarios; binary replaces the built-in subject.
func (s *session) runner(_ context.Context, binary string) (*scenarios.Runner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, environment(fmt.Errorf("find our own program: %w", err))
	}
	builtin := workload.Program{Path: self, Args: []string{conveyorName}, Env: append(shortLived(), s.lease.Env()), Seam: true}
	subject := builtin
	if binary != "" {
		subject = workload.Program{Path: binary, Env: []string{s.lease.Env()}, Seam: true}
	}
	catalogues := s.dir.File("catalogues")
	if err := os.Mkdir(catalogues, 0o700); err != nil {
		return nil, environment(err)
	}
	if s.store, err = workload.NewStore(builtin, catalogues); err != nil {
		return nil, environment(err)
	}
	return &scenarios.Runner{Rig: s.rig, Store: s.store, Subject: subject, Dir: s.dir, Seed: s.seed}, nil
}

func (s *session) postgres() report.Postgres {
	return report.Postgres{Version: s.rig.Server().Version().String(), Provider: s.rig.Server().Provider()}
}

func (s *session) plan(jobs []job) report.Plan {
	p := report.Plan{Version: Version, Seed: s.seed, Dir: s.dir.Path(), Postgres: s.postgres()}
	for _, j := range jobs {
		p.Cases = append(p.Cases, j.name())
	}
	return p
}

// reporters returns one reporter for all that was asked for.
func (f *common) reporters() (report.Reporter, error) {
	var all []report.Reporter
	screen := terminal.Detect(os.Stdout, os.Stderr, os.Getenv)
	switch f.format {
	case "list", "dots", "quiet":
		all = append(all, terminal.New(screen, terminal.Format(f.format)))
	case "json":
		all = append(all, jsonl.New(os.Stdout))
	default:
		return nil, usageError("--format=%s: unknown format%s", f.format, catalog.Suggest(f.format, []string{"list", "dots", "json", "quiet"}))
	}
	if f.json != "" {
		all = append(all, report.NewFile(f.json))
	}
	if f.junit != "" {
		all = append(all, junit.New(f.junit))
	}
	if f.html != "" {
		all = append(all, html.New(f.html))
	}
	return report.NewMulti(all...), nil
}
