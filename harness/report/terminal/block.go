package terminal

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/charmbracelet/lipgloss"

	"deadwire/harness/diagnose"
	"deadwire/harness/report"
	"deadwire/harness/rundir"
	"deadwire/harness/verdict"
)

// limits of a block, so that it stays on one screen; the JSON has everything
const (
	endingsMax  = 5
	findingsMax = 5
)

// columns of the two tables
const (
	verdictColumns = 14 // "undetermined" and two spaces
	labelColumns   = 11 // two spaces, "Numbers" and two spaces
)

// line shows a case that has ended: verdict, name, duration, and below it why
// it did not pass or what a passed case reproduced.
func (r *Reporter) line(c report.Case) string {
	mark := pad(verdictWord(c.Verdict), verdictColumns)
	took := report.Duration(c.DurationMS)
	room := r.screen.Width - verdictColumns - lipgloss.Width(took) - 2
	name := pad(cut(title(c), room), room)
	text := r.style.verdicts[c.Verdict].Render(mark) + name + "  " + r.style.dim.Render(took) + "\n"
	if said := note(c); said != "" {
		text += paint(r.style.dim, indent(said, verdictColumns, r.screen.Width)) + "\n"
	}
	return text
}

func verdictWord(v verdict.Verdict) string {
	if v == verdict.Fail {
		return "FAIL"
	}
	return string(v)
}

func title(c report.Case) string {
	name := report.Plain(c.String())
	if c.Iteration > 0 {
		name += fmt.Sprintf(" #%d", c.Iteration)
	}
	return name
}

func note(c report.Case) string {
	if c.Verdict != verdict.Pass {
		return c.Said()
	}
	for _, e := range c.Endings {
		if !ordinary(e) {
			said := fmt.Sprintf("as expected: %s by %s, %s", report.Title(e), report.ActorOf(e), e.Certainty)
			if c.Proof != nil {
				said += "\n" + proof(c)
			}
			return said
		}
	}
	return ""
}

// ordinary reports whether an ending is of the kind that every program has.
func ordinary(e diagnose.Ending) bool {
	return strings.HasPrefix(e.Rule, "close.") || strings.HasPrefix(e.Rule, "process.")
}

// block explains a case that did not pass, always in this order: verdict and
// name, broken promises, who ended what, the subject's words, numbers,
// commands, files.
func block(run report.Run, c report.Case, style palette, width int) string {
	var b strings.Builder
	head := []string{strings.ToUpper(string(c.Verdict)) + "  " + title(c), "seed " + report.Plain(run.Seed), report.Duration(c.DurationMS)}
	b.WriteString(paint(style.verdicts[c.Verdict], flow(head, "   ", width)) + "\n\n")
	say := sayer(&b, width)
	sayReasons(c, say)
	sayFindings(c.Findings, say)
	sayEnded(c, say)
	if c.Error != "" {
		say("Error", report.Plain(c.Error))
	}
	if c.Proof != nil {
		say("Proof", proof(c))
	}
	if len(c.Numbers) > 0 {
		say("Numbers", flow(numbers(c.Numbers), "   ", width-labelColumns))
	}
	b.WriteString("\n")
	sayNext(run, c, say, sayer(&b, math.MaxInt))
	return b.String()
}

// sayer returns the writer of a block's rows: a label and the text that hangs
// beside it; an empty label goes on with the row above.
func sayer(b *strings.Builder, width int) func(label, text string) {
	return func(label, text string) {
		margin := pad("  "+label, labelColumns)
		b.WriteString(margin + strings.TrimLeft(indent(text, labelColumns, width), " ") + "\n")
	}
}

// problemsMax bounds the reasons that are told one by one.
const problemsMax = 6

// sayReasons tells why the case did not pass, one row per reason.
func sayReasons(c report.Case, say func(label, text string)) {
	label := reasonWord(c.Verdict)
	if len(c.Problems) == 0 && c.Reason != "" {
		say(label, report.Plain(c.Reason))
	}
	for _, problem := range c.Problems[:min(len(c.Problems), problemsMax)] {
		say(label, report.Plain(problem))
		label = ""
	}
	sayMore(len(c.Problems)-problemsMax, "reasons", say)
}

// sayEnded explains the endings that nothing declared. Where there are none, the
// reader is told how the sessions did end, since that is what he looks for first.
func sayEnded(c report.Case, say func(label, text string)) {
	if unexpected := c.Unexpected(); len(unexpected) > 0 {
		sayEndings(unexpected, say)
		return
	}
	var told []string
	plain := 0
	for _, e := range c.Endings {
		if ordinary(e) {
			plain++
			continue
		}
		told = append(told, fmt.Sprintf("as expected: %s by %s, %s", report.Title(e), report.ActorOf(e), e.Certainty))
	}
	label := "Ended"
	for _, text := range told[:min(len(told), endingsMax)] {
		say(label, text)
		label = ""
	}
	sayMore(len(told)-endingsMax, "endings", say)
	switch {
	case plain == 1:
		say(label, "one session in the ordinary way")
	case plain > 1:
		say(label, fmt.Sprintf("%d sessions in the ordinary way", plain))
	case len(c.Endings) == 0:
		say(label, "no session was opened, or none ended")
	}
}

func reasonWord(v verdict.Verdict) string {
	if v == verdict.Undetermined {
		return "Missing"
	}
	return "Reason"
}

func sayFindings(findings []diagnose.Finding, say func(label, text string)) {
	for _, f := range findings[:min(len(findings), findingsMax)] {
		say("Broken", report.Broken(f))
		text := report.Plain(f.Message)
		if len(f.Evidence) > 0 {
			text += " (events " + report.Evidence(f.Evidence) + ")"
		}
		say("", text)
		if f.Mend != "" {
			say("", "mend: "+report.Plain(f.Mend))
		}
	}
	sayMore(len(findings)-findingsMax, "findings", say)
}

func sayEndings(endings []diagnose.Ending, say func(label, text string)) {
	for _, e := range endings[:min(len(endings), endingsMax)] {
		say("Ended", report.Title(e))
		say("", report.Who(e))
		say("", report.How(e))
		if len(e.HoldersBefore)+len(e.HoldersAfter) > 0 {
			say("", fmt.Sprintf("holders before %s, after %s", pids(e.HoldersBefore), pids(e.HoldersAfter)))
		}
		if e.Stack != "" {
			say("", "stack:")
			for _, line := range strings.Split(e.Stack, "\n") {
				say("", "  "+report.Plain(line))
			}
		}
		if e.Mend != "" {
			say("", "mend: "+report.Plain(e.Mend))
		}
	}
	sayMore(len(endings)-endingsMax, "endings", say)
}

func sayMore(count int, what string, say func(label, text string)) {
	if count > 0 {
		say("", fmt.Sprintf("and %d more %s, all in %s", count, what, rundir.VerdictName))
	}
}

func pids(list []int) string {
	if len(list) == 0 {
		return "none"
	}
	more := ""
	if len(list) > pidsMax {
		more = fmt.Sprintf(" and %d more", len(list)-pidsMax)
	}
	return strings.Trim(fmt.Sprint(list[:min(len(list), pidsMax)]), "[]") + more
}

// pidsMax is how many of a list of processes are shown; the files have them all.
const pidsMax = 12

// proof shows both runs side by side: the case as it is, and without the accused act.
func proof(c report.Case) string {
	word := "not proven"
	if c.Proof.Proven {
		word = "proven"
	}
	return word + "\nas it is: " + came(c.Outcome, c.Error) +
		"\nwithout " + report.Plain(c.Proof.Suppressed) + ": " + came(c.Proof.Outcome, c.Proof.Error)
}

// came says what the subject came to.
func came(outcome report.Outcome, words string) string {
	text := "the subject " + string(outcome)
	if outcome == "" {
		text = "the subject's outcome is not known"
	}
	if words != "" {
		text += " with " + report.Plain(words)
	}
	return text
}

func numbers(list []report.Number) []string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = report.Plain(n.Name + " " + n.Value)
		if n.Limit != "" {
			words[i] += " " + report.Plain(n.Limit) + " " + tick(n.OK)
		}
	}
	return words
}

func tick(ok bool) string {
	if ok {
		return "✔"
	}
	return "✘"
}

// sayNext names the commands to look closer and to do it again, and the files.
// Commands are never broken, since they are there to be pasted.
func sayNext(run report.Run, c report.Case, say, command func(label, text string)) {
	if run.Dir == "" {
		return
	}
	command("look", "deadwire show "+report.Plain(run.Dir))
	again := c.Again
	if again == "" {
		again = "deadwire run " + c.String() + " --seed " + run.Seed
	}
	command("again", report.Plain(again))
	files := []string{rundir.VerdictName, rundir.PostgresName}
	if c.Dir != "" {
		files = append(files, filepath.Join(c.Dir, rundir.EventsName), filepath.Join(c.Dir, rundir.SubjectName))
	}
	if c.Where != "" {
		say("where", report.Plain(c.Where))
	}
	say("files", "in "+report.Plain(run.Dir)+": "+strings.Join(files, " "))
}

// lastLine says what a run came to. It is never wrapped, so that one grep finds
// verdict and seed.
func lastLine(run report.Run, style palette) string {
	whole := run.Verdict()
	skipped := fmt.Sprintf("%d skipped", run.Totals.Skip)
	if reason := skipReason(run); reason != "" {
		skipped += " (" + reason + ")"
	}
	counts := fmt.Sprintf("%d passed, %d failed, %d undetermined, %s", run.Totals.Pass, run.Totals.Fail, run.Totals.Undetermined, skipped)
	cases := fmt.Sprintf("%d cases", run.Totals.Count())
	if run.Totals.Count() == 1 {
		cases = "1 case"
	}
	interrupted := ""
	if run.Interrupted {
		interrupted = ", interrupted"
	}
	return style.verdicts[whole].Render("DONE") + fmt.Sprintf(" %s: %s in %s%s   verdict %s   seed %s\n",
		cases, counts, report.Duration(run.DurationMS), interrupted, whole, report.Plain(run.Seed))
}

// skipReason returns the reason that all skipped cases share, empty if they differ.
func skipReason(run report.Run) string {
	shared := ""
	for _, c := range run.Cases {
		if c.Verdict != verdict.Skip {
			continue
		}
		if shared != "" && c.Reason != shared {
			return ""
		}
		shared = c.Reason
	}
	return report.Plain(shared)
}
