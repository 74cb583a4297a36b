package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"deadwire/harness"
	"deadwire/harness/report"
	"deadwire/harness/report/terminal"
	"deadwire/harness/rundir"
	"deadwire/harness/tap"
	"deadwire/harness/verdict"
	"deadwire/scenarios"
)

const execName = "exec"

// execFlags are the flags of `deadwire exec`.
type execFlags struct {
	common
	env      []string
	faults   []string
	redirect []string
	tls      string
	witness  string
	guard    bool
	prove    bool
	strict   bool
	stack    string
	note     string
	linger   time.Duration
	messages bool
	noRing   bool
	every    bool

	serverTLS bool
}

func execCommand() *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use: execName + " [flags] -- CMD [ARG...]", Short: "Run any program under the witness, and explain how each of its sessions ended",
		Long: `Run a program, unchanged, with its own standard streams, between a tap and PostgreSQL, and
say at its end on standard error which process ended which session, how, and why. The exit code
is the program's own (128 and the signal's number if one killed it).

The program is led to the tap by PGHOST, PGPORT, DATABASE_URL and their like, and where it has the
server's address written into it, by redirecting its connects.`,
		Example: `  deadwire exec -- python3 app.py
  deadwire exec --postgres postgres://app:secret@localhost/shop -- bin/server
  deadwire exec --prove -- ./prefork.rb            run again without the accused act
  deadwire exec --stack 'py-spy dump --nonblocking --pid {pid}' -- python3 app.py
  deadwire exec --fault network.cut:manner=fin,at.verb=COMMIT -- ./pay`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError("exec: no program is named, as in: deadwire exec -- python3 app.py")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	f.register(flags)
	for _, name := range []string{"format", "junit", "html"} { // the report goes to standard error, as text
		_ = flags.MarkHidden(name) // fails only for unknown names
	}
	flags.StringArrayVar(&f.env, "env", nil, "also set `NAME=TEMPLATE` for the program; {host} {port} {user} {password} {database} {url} and {socket} (the folder of the tap's Unix socket, a host for libpq) are filled in")
	flags.StringArrayVar(&f.faults, "fault", nil, "inject a fault: `NAME:KEY=VALUE,…` or a JSON object as in a scenario; repeatable (see: deadwire faults)")
	flags.StringArrayVar(&f.redirect, "redirect", nil, "also send connects to `ADDRESS` (HOST:PORT or the path of a Unix socket) to the tap; \"none\": not even those to the server's own address")
	flags.StringVar(&f.tls, "tls", string(tap.TLSPassthrough), "what becomes of TLS: `MODE` passthrough, refuse or terminate")
	flags.BoolVar(&f.serverTLS, "server-tls", false, "speak TLS with the server, which may demand it, without checking its certificate")
	flags.BoolVar(&f.every, "every-send", false, "look at every send, not only at those that can end a session: tells who asks over a shared session, at some 10 µs a send and more on a busy machine")
	flags.StringVar(&f.witness, "witness", "exact", "how processes are watched: `KIND` exact, holders, defer (by the wire alone, holding Terminate back) or none")
	flags.BoolVar(&f.guard, "guard", false, "keep processes from ending sessions that they only inherited")
	flags.BoolVar(&f.prove, "prove", false, "after a failure run again with only the accused act suppressed")
	flags.BoolVar(&f.strict, "strict", false, "exit with 1 if anything was found, with 3 if nothing could be: no session came by the tap, or a fault did not act")
	flags.StringVar(&f.stack, "stack", "", "`CMD` to run when a process is caught in the act; {pid} is filled in")
	flags.StringVar(&f.note, "attach-note", "", "`TEXT` to keep in the report")
	flags.BoolVar(&f.noRing, "refuse-io-uring", false, "answer io_uring_setup with ENOSYS: what is sent through a ring cannot be seen")
	flags.DurationVar(&f.linger, "linger", 10*time.Second, "after the program's end wait so `LONG` for processes that it left and that hold no session")
	flags.BoolVar(&f.messages, "messages", false, "record every protocol message, without its payload")
	return cmd
}

// trial is what one run of the program is given.
type trial struct {
	name   string // of its folder
	guard  bool
	second bool // to see what changes: its words are kept, not shown
}

func (f *execFlags) run(ctx context.Context, argv []string) (err error) {
	steps, err := f.check()
	if err != nil {
		return err
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return startError(err)
	}
	signals := catchSignals(ctx)
	defer signals.stop()
	ctx = signals.ctx
	began := time.Now()
	s, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	e := &execution{flags: f, session: s, argv: argv, steps: steps, signals: signals}
	first, err := e.do(ctx, trial{name: "run", guard: f.guard})
	if err != nil {
		return err
	}
	c := e.judge(first)
	if f.prove {
		if c.Proof, err = e.prove(ctx, first); err != nil {
			return err
		}
	}
	out := e.report(c, first, time.Since(began))
	return errors.Join(f.show(s, out), f.conclude(out))
}

// check refuses flags that make no sense before anything is started.
func (f *execFlags) check() ([]scenarios.FaultStep, error) {
	switch f.witness {
	case "exact", "holders", "defer", "none":
	default:
		return nil, usageError("--witness=%s: want exact, holders, defer or none", f.witness)
	}
	switch tap.TLSMode(f.tls) {
	case tap.TLSRefuse, tap.TLSPassthrough, tap.TLSTerminate:
	default:
		return nil, usageError("--tls=%s: want passthrough, refuse or terminate", f.tls)
	}
	if f.serverTLS && tap.TLSMode(f.tls) == tap.TLSPassthrough {
		return nil, usageError("--server-tls: with --tls=passthrough the program itself speaks TLS with the server; want --tls=terminate or refuse")
	}
	if f.guard && f.prove {
		return nil, usageError("--guard and --prove: with the guard on there is no failure to prove")
	}
	for _, entry := range f.env {
		if name, _, found := strings.Cut(entry, "="); !found || name == "" {
			return nil, usageError("--env %q: want NAME=TEMPLATE", entry)
		}
	}
	for _, address := range f.redirect {
		if err := new(detour).check(address); err != nil {
			return nil, err
		}
	}
	f.asIs = true
	return parseFaults(f.faults)
}

// database returns the one that the program is given: the user's own, or an
// empty one on a server of ours.
func (s *session) database(ctx context.Context) (*harness.Database, error) {
	if server := s.rig.Server(); server.PID() == 0 {
		return s.rig.BorrowDatabase(server.Address().Database), nil
	}
	db, err := s.rig.NewDatabase(ctx, harness.DatabaseConfig{Key: "empty", Build: func(context.Context, string) error { return nil }})
	if err != nil {
		return nil, environment(err)
	}
	return db, nil
}

// show writes the report in all its forms.
func (f *execFlags) show(s *session, out report.Exec) error {
	status := rundir.Passed
	if out.Verdict() == verdict.Fail {
		status = rundir.FailedRun
	}
	errs := []error{report.WriteExec(filepath.Join(s.dir.Path(), rundir.VerdictName), out)}
	if f.json != "" {
		errs = append(errs, report.WriteExec(f.json, out))
	}
	screen := terminal.Detect(os.Stderr, os.Stderr, os.Getenv)
	return errors.Join(append(errs, s.dir.FinishAside(status), terminal.ShowExec(screen, out))...)
}

// conclude turns the program's fate into our exit code.
func (f *execFlags) conclude(out report.Exec) error {
	code := out.ExitCode
	switch {
	case !f.strict:
	case out.Verdict() == verdict.Fail || len(out.Sharing) > 0:
		code = verdict.ExitFail
	case out.Verdict() == verdict.Undetermined:
		code = verdict.ExitUndetermined
	}
	if code == verdict.ExitPass {
		return nil
	}
	return &exitError{code: code}
}

// startError says why the program did not run, with a shell's exit codes.
func startError(err error) error {
	code := 126
	if errors.Is(err, os.ErrNotExist) {
		code = 127
	}
	return &exitError{code: code, err: fmt.Errorf("run the program: %w", err)}
}
