package terminal

import (
	"fmt"
	"io"
	"strings"

	"deadwire/harness/report"
	"deadwire/harness/verdict"
)

// ShowExec writes what deadwire exec found to screen.Err, since standard output
// belongs to the subject: every ending that is not ordinary, every finding, who
// shares what, and a last line. It returns the first error of writing.
func ShowExec(screen Screen, e report.Exec) error {
	screen = screen.withDefaults()
	var b strings.Builder
	say := sayer(&b, screen.Width)
	endings, plain := 0, 0
	for _, c := range e.Cases {
		notable := c.Endings[:0:0]
		for _, ending := range c.Endings {
			if ordinary(ending) && ending.Expected {
				plain++
				continue
			}
			notable = append(notable, ending)
		}
		endings += len(c.Endings)
		sayFindings(c.Findings, say)
		sayEndings(notable, say)
		if c.Reason != "" {
			say(reasonWord(c.Verdict), report.Plain(c.Reason))
		}
		if c.Proof != nil {
			say("Proof", proof(c))
		}
	}
	for _, s := range e.Sharing[:min(len(e.Sharing), pidsMax)] {
		say("Shared", fmt.Sprintf("process %d holds session %d, opened by %d", s.Holder, s.Session, s.Opener))
	}
	sayMore(len(e.Sharing)-pidsMax, "that share", say)
	for _, missing := range e.Missing {
		say("Unseen", report.Plain(missing))
	}
	b.WriteString(execLine(e, endings, plain, newPalette(screen)))
	_, err := io.WriteString(screen.Err, b.String())
	return err
}

func execLine(e report.Exec, endings, plain int, style palette) string {
	whole := e.Verdict()
	findings := 0
	for _, c := range e.Cases {
		findings += len(c.Findings)
	}
	mark := style.verdicts[whole]
	if whole == verdict.Skip {
		mark = style.bold
	}
	return mark.Render("DONE") + fmt.Sprintf(" exit %d: %d sessions ended, %d of them ordinarily; %d findings in %s   verdict %s   seed %s\n",
		e.ExitCode, endings, plain, findings, report.Duration(e.DurationMS), whole, report.Plain(e.Seed))
}
