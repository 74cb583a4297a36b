package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"deadwire/harness"
	"deadwire/harness/diagnose"
	"deadwire/harness/event"
	"deadwire/harness/janitor"
	"deadwire/harness/pg/local"
	"deadwire/harness/subject"
	"deadwire/harness/tap"
	"deadwire/harness/wait"
	"deadwire/harness/witness"
)

// trialMax bounds one trial on a busy machine.
const trialMax = 4 * time.Minute

// shape is something that a program does to a session.
type shape struct {
	name      string
	rule      string // that must be found; "" for healthy ones
	healthy   bool
	plain     bool // makes no sense over TLS
	languages []string
	needs     string // a program that must be installed
}

// here reports whether what the shape needs is installed.
func (s shape) here() bool {
	_, err := exec.LookPath(s.needs)
	return s.needs == "" || err == nil
}

const inherited = "fork.inherited-terminate"

// deferring is the kind of witness that sees the wire alone and holds Terminate back.
const deferring = "defer"

func shapes() []shape {
	every := []string{"python", "psycopg3", "perl", "ruby", "php"}
	python := every[:2]
	return []shape{
		{name: "child-close", rule: inherited, languages: every},
		{name: "child-exit", rule: inherited, languages: every[2:]},
		{name: "grandchild-close", rule: inherited, languages: python},
		{name: "one-of-many", rule: inherited, languages: python},
		{name: "prefork-recycled", rule: inherited, languages: python},
		{name: "shutdown", rule: inherited, languages: python},
		{name: "glued", rule: inherited, plain: true, languages: python},
		{name: "pieces", rule: inherited, plain: true, languages: python},
		{name: "vector", rule: inherited, plain: true, languages: python},
		{name: "duplicate", rule: inherited, plain: true, languages: python},
		{name: "several", rule: inherited, plain: true, languages: python},
		{name: "passed", rule: inherited, plain: true, languages: python},
		{name: "shared", rule: "fork.shared", languages: every},
		{name: "opener-left", rule: "fork.opener-left", languages: python},
		{name: "held", rule: "fork.held-by-descendant", languages: python},
		{name: "forget", healthy: true, languages: every},
		{name: "own", healthy: true, languages: every},
		{name: "prefork", healthy: true, languages: python},
		{name: "pgbouncer", healthy: true, languages: python, needs: "pgbouncer"},
		{name: "reconnect", healthy: true, languages: python},
		{name: "program", healthy: true, languages: python},
		{name: "left-open", healthy: true, languages: python},
		{name: "handed-over", healthy: true, plain: true, languages: python},
	}
}

// court is where trials are held: a server with TLS, and the programs.
type court struct {
	rig     *harness.Rig
	lease   *janitor.Lease
	dir     string
	witness string
}

func newCourt(ctx context.Context, kind string) (c *court, err error) {
	c = &court{witness: kind}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close(ctx))
		}
	}()
	if _, err := janitor.Sweep(ctx, ""); err != nil {
		return c, err
	}
	if c.lease, err = janitor.Acquire(""); err != nil {
		return c, err
	}
	if c.dir, err = os.MkdirTemp("", "deadwire-trials-"); err != nil {
		return c, err
	}
	// The server's own user must be able to enter it.
	if err := errors.Join(os.Chmod(c.dir, 0o711), c.lease.OwnDir(c.dir), extractTrials(c.dir)); err != nil {
		return c, err
	}
	if c.rig, err = harness.New(ctx, harness.Config{Provider: local.New(local.Options{}), Owner: c.lease}); err != nil {
		return c, err
	}
	return c, serveTLS(ctx, c.rig, c.dir)
}

func (c *court) close(ctx context.Context) error {
	var errs []error
	if c.rig != nil {
		errs = append(errs, c.rig.Close(ctx))
	}
	if c.dir != "" {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	if c.lease != nil {
		errs = append(errs, c.lease.Release())
	}
	return errors.Join(errs...)
}

// try holds one trial and returns what is wrong with the diagnosis, "" for nothing.
func (c *court) try(ctx context.Context, p plan) (wrong string, err error) {
	ctx, cancel := context.WithTimeout(ctx, trialMax)
	defer cancel()
	watch := witness.Options{Sends: witness.Senders, TLS: p.tls, Disabled: c.witness == witness.Holders, Blind: c.witness == deferring}
	if p.guarded {
		watch.Decide = witness.Guard
	}
	lane, err := c.rig.NewLane(ctx, harness.LaneConfig{
		Name: strconv.Itoa(p.number), Database: c.rig.BorrowDatabase(c.rig.Server().Address().Database), Watch: true,
		Witness: watch, TLS: tap.TLSPassthrough,
	})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lane.Close(ctx)) }()
	switch {
	case c.witness == deferring:
		lane.Defer()
	case p.guarded:
		lane.DeferUnseen()
	}
	exit, err := c.perform(ctx, lane, p)
	if err != nil {
		return "", err
	}
	events := lane.Journal.Events()
	if p.guarded {
		wrong = p.rescued(events, exit)
	} else {
		wrong = p.verdict(events, c.witness)
	}
	if wrong != "" {
		wrong += "\n" + sayJournal(events)
	}
	return wrong, nil
}

// perform runs the program until nothing of it is left.
func (c *court) perform(ctx context.Context, lane *harness.Lane, p plan) (exit subject.Exit, err error) {
	env, url := lane.Env(), lane.URL()
	if p.tls {
		url = strings.Replace(url, "sslmode=disable", "sslmode=require", 1)
		env = append(env, "DATABASE_URL="+url, "TRIAL_SSLMODE=require")
	}
	if p.language.driver != "" {
		env = append(env, "TRIAL_DRIVER="+p.language.driver)
	}
	args := append(slices.Clone(p.language.command[1:]), filepath.Join(c.dir, p.language.file), p.shape.name,
		strconv.FormatInt(p.before.Microseconds(), 10), strconv.FormatInt(p.after.Microseconds(), 10))
	instance, err := lane.Start(ctx, subject.Command{Path: p.language.command[0], Args: args, Env: env})
	if err != nil {
		return exit, err
	}
	defer func() { err = errors.Join(err, instance.Close(ctx)) }()
	if exit, err = instance.Wait(ctx); err != nil {
		return exit, err
	}
	err = wait.For(ctx, "the program's processes to end", func(context.Context) wait.Answer {
		if left := instance.PIDs(); len(left) > 0 {
			return wait.NotYet("%v", left)
		}
		return wait.Done()
	})
	return exit, errors.Join(err, lane.Settle(ctx))
}

// confessions returns who said that they did what, by role.
func confessions(events []event.Event) map[string]int {
	said := map[string]int{}
	for _, e := range events {
		if e.Kind != event.SubjectOutput {
			continue
		}
		role, number, _ := strings.Cut(e.Output.Text, " ")
		if pid, err := strconv.Atoi(number); err == nil {
			said[role] = pid
		}
	}
	return said
}

// verdict compares the diagnosis with the confession.
func (p plan) verdict(events []event.Event, kind string) string {
	report, said := diagnose.Explain(events), confessions(events)
	if len(report.Endings) != report.Sessions {
		return fmt.Sprintf("%d sessions, %d endings", report.Sessions, len(report.Endings))
	}
	if p.shape.healthy {
		return healthy(report, kind)
	}
	if said["opener"] == 0 || said["actor"] == 0 {
		return "the program confessed nothing"
	}
	if p.shape.rule == "fork.shared" {
		return p.shared(report, said, kind)
	}
	if kind != witness.Exact {
		return p.unobserved(report, said, kind)
	}
	for _, e := range report.Endings {
		switch {
		case e.Session != 1:
		case e.Rule != p.shape.rule:
			return fmt.Sprintf("found %s: %s", e.Rule, e.Message)
		case e.Actor.PID != said["actor"]:
			return fmt.Sprintf("names %d, it was %d: %s", e.Actor.PID, said["actor"], e.Message)
		case e.Opener.PID != said["opener"]:
			return fmt.Sprintf("opener %d, it was %d", e.Opener.PID, said["opener"])
		}
	}
	return ""
}

// rescued judges the second run of a trial: with the act of the one who confessed
// suppressed, and nothing else, its opener goes on and ends the session itself.
func (p plan) rescued(events []event.Event, exit subject.Exit) string {
	report, said := diagnose.Explain(events), confessions(events)
	for _, e := range report.Endings {
		if !e.Expected {
			return fmt.Sprintf("ending %s all the same: %s", e.Rule, e.Message)
		}
	}
	if exit.Code != 0 || exit.Signal != 0 {
		return fmt.Sprintf("it did not survive: %+v", exit)
	}
	named := slices.ContainsFunc(report.Findings, func(f diagnose.Finding) bool {
		return f.Rule == inherited && slices.Equal(f.PIDs, []int{said["actor"]})
	})
	if !named {
		return fmt.Sprintf("it survived, but %d is not said to have been kept from it: %+v", said["actor"], report.Findings)
	}
	return ""
}

// unobserved judges a trial whose system calls nobody saw: silence is allowed, a
// wrong name is not. What is held back on plain text must be noticed all the same.
func (p plan) unobserved(report diagnose.Report, said map[string]int, kind string) string {
	noticed := kind != deferring || p.tls || p.shape.name == "shutdown" || p.shape.rule != inherited
	for _, e := range report.Endings {
		noticed = noticed || e.Rule == inherited
		if e.Actor.PID != 0 && (e.Manner == event.Terminate || e.Actor.PID != said["actor"]) {
			return fmt.Sprintf("names %d, it was %d: %s: %s", e.Actor.PID, said["actor"], e.Rule, e.Message)
		}
	}
	if !noticed {
		return fmt.Sprintf("did not notice: %+v", report.Endings)
	}
	return ""
}

// shared judges a trial in which two processes asked over one session.
func (p plan) shared(report diagnose.Report, said map[string]int, kind string) string {
	if kind != witness.Exact {
		return "" // who sent cannot be seen
	}
	for _, e := range report.Endings {
		if p.tls && e.Rule == "fork.shared-tls" && e.Opener.PID == said["opener"] {
			return ""
		}
	}
	for _, f := range report.Findings {
		if !p.tls && f.Rule == "fork.shared-query" && slices.Contains(f.PIDs, said["actor"]) && slices.Contains(f.PIDs, said["opener"]) {
			return ""
		}
	}
	return fmt.Sprintf("found no sharing: %+v %+v", report.Endings, report.Findings)
}

func healthy(report diagnose.Report, kind string) string {
	for _, f := range report.Findings {
		return "finding " + f.Rule + ": " + f.Message
	}
	for _, e := range report.Endings {
		if !e.Expected && !(kind != witness.Exact && e.Rule == diagnose.RuleUnknown) {
			return "ending " + e.Rule + ": " + e.Message
		}
	}
	return ""
}

// sayJournal prints what happened, for the eye.
func sayJournal(events []event.Event) string {
	var b strings.Builder
	for _, e := range events {
		if e.Kind == event.SessionMessage {
			continue
		}
		fmt.Fprintf(&b, "  %d %v %s pid %d %v", e.Seq, e.At.Round(10*time.Microsecond), e.Kind, e.PID, e.Session)
		for _, detail := range []any{e.Process, e.Call, e.Opened, e.Holders, e.Closing, e.Output, e.Step} {
			if text := fmt.Sprintf("%+v", detail); text != "<nil>" {
				b.WriteString(" " + text)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
