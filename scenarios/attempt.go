package scenarios

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"deadwire/faults"
	"deadwire/harness"
	"deadwire/harness/diagnose"
	"deadwire/harness/event"
	"deadwire/harness/report"
	"deadwire/harness/rundir"
	"deadwire/harness/subject"
	"deadwire/harness/tap"
	"deadwire/harness/wait"
	"deadwire/harness/witness"
	"deadwire/scenarios/oracle"
	"deadwire/scenarios/workload"
)

// outcomes of a subject, as scenarios name them
const (
	outcomeCompletes = "completes"
	outcomeFails     = "fails"
	outcomeKilled    = "killed"
	outcomeHangs     = "hangs"
	outcomeAny       = "any" // expected only: whatever comes, but an end
)

// bounds of what follows the end of the subject's first process
const (
	// leaveMax is how long the rest of the subject may take to leave by itself, beside
	// the deadline of a statement that is under way.
	leaveMax = 5 * time.Second
	// settleMax is how long sessions may take to end once all processes are gone.
	settleMax = 10 * time.Second
)

// throttleWait is the first wait for a slot where a workload says how many there are.
const throttleWait = 250 * time.Millisecond

// attempt is one run of the subject over a case's database.
type attempt struct {
	runner   *Runner
	scenario Scenario
	faults   []FaultStep
	after    []Step
	database *harness.Database
	dir      string
	name     string
	earlier  *oracle.Snapshot // what an earlier run left, nil for the first
	guard    bool             // keep inheritors from ending sessions
	noRows   string           // a check to be carried out at its end
	redo     redoing

	lane     *harness.Lane
	instance *subject.Instance
	running  atomic.Pointer[subject.Instance] // instance, for faults that ask from elsewhere
	output   *os.File                         // a copy of what the subject prints
	beside   []*subject.Instance              // further dispatchers
	seam     faults.Seam
	images   *workload.Branch // nil for a program that is not conveyor
	injected []injection
}

// result is what an attempt came to: facts, not yet judged.
type result struct {
	outcome  string
	exit     subject.Exit
	events   []event.Event
	report   diagnose.Report
	snapshot oracle.Snapshot
	broken   []diagnose.Finding // promises
	exact    bool               // the exact witness was at work
	faults   []faultFact
	limit    time.Duration
	workers  int   // how many the subject was given; 0 for a program that is not conveyor
	left     []int // pids that lived on after its end
	beside   int   // dispatchers beside the first
	paced    bool  // fetches were paced over a session
	lagging  bool  // a dispatcher beside the first did not complete
	memory   int64 // the most resident memory of the first process, in bytes
}

// do runs the subject from start to end and collects the facts. An error says
// that deadwire or its environment could not do its part.
func (a *attempt) do(ctx context.Context) (out result, err error) {
	sends := witness.Endings
	if a.scenario.Witness.Sends == "all" {
		sends = witness.All
	}
	watch := witness.Options{Sends: sends, TLS: a.scenario.TLS == string(tap.TLSTerminate)}
	if a.guard {
		watch.Decide = witness.Guard
	}
	lane := fmt.Sprintf("%slane-%d", a.runner.Lanes, a.runner.next())
	if len(a.scenario.Command) == 0 {
		a.images = a.runner.Store.Branch(lane)
		defer a.images.Close()
	}
	a.lane, err = a.runner.Rig.NewLane(ctx, harness.LaneConfig{
		Name: lane, Database: a.database, Dir: a.dir, Witness: watch, TLS: tap.TLSMode(a.scenario.TLS),
	})
	if err != nil {
		return out, fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	defer func() { err = errors.Join(err, a.lane.Close(ctx)) }()
	out, err = a.observe(ctx)
	if err != nil {
		return out, err
	}
	return out, a.keep(out)
}

// observe arms the faults, runs the subject, and takes the facts in.
func (a *attempt) observe(ctx context.Context) (out result, err error) {
	running, stop := context.WithCancel(ctx)
	defer func() {
		stop() // first: healing waits for injections, and those for their triggers
		err = errors.Join(err, a.heal(ctx))
	}()
	if err := a.arm(running); err != nil {
		return out, err
	}
	if err := a.start(ctx); err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, a.closeAll(ctx), a.output.Close()) }()
	a.spring(running)
	if err := a.startBeside(ctx); err != nil {
		return out, err
	}
	if err := a.wait(ctx, &out); err != nil {
		return out, err
	}
	if out.outcome != outcomeHangs {
		if err := a.followUp(ctx); err != nil {
			return out, err
		}
	}
	left := a.leave(ctx)
	stop()
	if err := a.heal(ctx); err != nil {
		return out, err
	}
	if err := errors.Join(a.closeAll(ctx), a.settle(ctx)); err != nil {
		return out, err
	}
	return a.collect(ctx, out, left)
}

func (a *attempt) start(ctx context.Context) (err error) {
	a.output, err = os.OpenFile(filepath.Join(a.dir, rundir.SubjectName), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	command := a.command()
	command.Stdout, command.Stderr = a.output, a.output
	a.instance, err = a.lane.Start(ctx, command)
	if err != nil {
		return errors.Join(fmt.Errorf("start the subject: %w", err), a.output.Close())
	}
	a.running.Store(a.instance)
	return nil
}

func (a *attempt) command() subject.Command {
	env := a.lane.Env()
	if len(a.scenario.Command) > 0 {
		return subject.Command{Path: a.scenario.Command[0], Args: a.scenario.Command[1:], Env: env}
	}
	w := a.scenario.Workload
	args := append(a.redo.words(), "--workers", strconv.Itoa(w.Workers))
	if w.ThrottleRetries > 0 {
		args = append(args, "--throttle-retries", strconv.Itoa(w.ThrottleRetries), "--throttle-wait", throttleWait.String())
	}
	if w.RecycleAfter > 0 {
		args = append(args, "--recycle-after", strconv.Itoa(w.RecycleAfter))
	}
	if seam := a.seam.Encode(); seam != "" {
		env = append(env, faults.SeamEnv+"="+seam)
	}
	return a.dispatcher(args, env)
}

// wait takes in how the subject's first process ended, or that it did not, and
// whether those beside it did.
func (a *attempt) wait(ctx context.Context, out *result) error {
	bounded, cancel := context.WithTimeout(ctx, a.scenario.limit())
	defer cancel()
	exit, err := a.waitMeasuring(bounded, out)
	out.exit, out.outcome = exit, outcomeOf(exit, err)
	for _, other := range a.beside {
		exit, err := other.Wait(bounded)
		switch was := outcomeOf(exit, err); was {
		case outcomeHangs:
			out.outcome = was
		default:
			out.lagging = out.lagging || was != outcomeCompletes
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func outcomeOf(exit subject.Exit, err error) string {
	switch {
	case err != nil:
		return outcomeHangs
	case exit.Signal != 0:
		return outcomeKilled
	case exit.Code == 0:
		return outcomeCompletes
	default:
		return outcomeFails
	}
}

// leave gives the rest of the subject time to go by itself, and returns the
// pids that did not.
func (a *attempt) leave(ctx context.Context) []int {
	statement := time.Duration(a.scenario.Workload.DBTimeoutMS) * time.Millisecond
	bounded, cancel := context.WithTimeout(ctx, leaveMax+statement)
	defer cancel()
	err := wait.For(bounded, "the subject's processes to leave", func(context.Context) wait.Answer {
		if left := a.pids(); len(left) > 0 {
			return wait.NotYet("pids %v", left)
		}
		return wait.Done()
	})
	if err == nil {
		return nil
	}
	return a.pids()
}

// settle waits for the sessions to end at the taps and on the server. That they
// do not is a finding of the oracle, not an error.
func (a *attempt) settle(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, settleMax)
	defer cancel()
	if err := a.lane.Settle(bounded); err != nil {
		return ctx.Err()
	}
	admin, err := a.database.Admin(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	defer func() { _ = admin.Close(context.WithoutCancel(ctx)) }()
	_ = wait.For(bounded, "the server to let go", func(ctx context.Context) wait.Answer {
		var s oracle.Snapshot
		if err := oracle.Residue(ctx, admin, &s); err != nil {
			return wait.Never(err)
		}
		if len(s.Sessions)+len(s.Locks) > 0 {
			return wait.NotYet("%d sessions, %d locks", len(s.Sessions), len(s.Locks))
		}
		return wait.Done()
	})
	return ctx.Err()
}

// collect takes the snapshot and judges by rules and promises.
func (a *attempt) collect(ctx context.Context, out result, left []int) (result, error) {
	a.markBites()
	var err error
	if out.snapshot, err = a.snapshot(ctx); err != nil {
		return out, err
	}
	out.events = a.lane.Journal.Events()
	out.exact = a.lane.Witness.Certainty() == witness.Exact
	for _, i := range a.injected {
		out.faults = append(out.faults, i.fact())
	}
	out.limit, out.left = a.scenario.limit(), left
	if len(a.scenario.Command) == 0 {
		a.measures(&out)
	}
	out.explain(a.earlier)
	return out, nil
}

// snapshot reads what the run left in the database: of conveyor the tables too,
// of any other program its sessions and locks.
func (a *attempt) snapshot(ctx context.Context) (s oracle.Snapshot, err error) {
	admin, err := a.database.Admin(ctx)
	if err != nil {
		return s, fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	defer func() { _ = admin.Close(context.WithoutCancel(ctx)) }()
	if len(a.scenario.Command) > 0 {
		err = oracle.Residue(ctx, admin, &s)
	} else {
		s, err = oracle.Take(ctx, admin)
	}
	if err == nil && a.noRows != "" {
		s.Rows = oracle.Ask(ctx, admin, a.noRows)
	}
	return s, err
}

// keep writes the snapshot beside the journal, so that the run can be judged
// again without its database.
func (a *attempt) keep(out result) error {
	if err := rundir.WriteJSON(filepath.Join(a.dir, snapshotName), out.snapshot); err != nil {
		return fmt.Errorf("%w: %w", ErrEnvironment, err)
	}
	return nil
}

// errorMax bounds what is quoted of the subject's last words, in bytes.
const errorMax = 800

// lastWords returns the subject's last message on stderr that is not a log line. A
// message goes on in lines that are indented, as libpq's do: of those the last one
// says least.
func (r result) lastWords() string {
	lines := r.errorLines()
	first := len(lines) - 1
	for first > 0 && strings.TrimLeft(lines[first], " \t") != lines[first] {
		first--
	}
	if first < 0 {
		return ""
	}
	for n, line := range lines[first:] {
		lines[first+n] = strings.TrimSpace(line)
	}
	text := strings.Join(lines[first:], " ")
	if len(text) > errorMax {
		text = strings.ToValidUTF8(text[:errorMax], "") + "…"
	}
	return text
}

func (r result) errorLines() []string {
	var lines []string
	for _, e := range r.events {
		if e.Kind != event.SubjectOutput || e.Output.Stream != "stderr" || strings.HasPrefix(e.Output.Text, faults.MarkerPrefix) {
			continue
		}
		if text := e.Output.Text; !json.Valid([]byte(text)) && strings.TrimSpace(text) != "" {
			lines = append(lines, text)
		}
	}
	return lines
}

func (r result) fill(out *report.Case) {
	out.Outcome = report.Outcome(r.outcome)
	if r.outcome != outcomeCompletes {
		out.Error = r.lastWords()
	}
	out.MemoryBytes = max(out.MemoryBytes, r.memory)
	out.Endings = r.report.Endings
	out.Findings = append(out.Findings, r.report.Findings...)
	out.Findings = append(out.Findings, r.broken...)
	for _, f := range r.faults {
		if f.bit(r.events) {
			out.Faults = append(out.Faults, f.Name)
		}
	}
}
