package command

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	// term: whether somebody watches, and how wide the line may be.
	"golang.org/x/term"

	"deadwire/pipeline"
	"deadwire/pipeline/dispatch"
)

const (
	// rolledBatches and rolledTime are how much one line sums up where nobody watches.
	rolledBatches = 25
	rolledTime    = 300 * time.Second
	// barWidth is in characters.
	barWidth = 24
)

// progress shows a pass while it runs: one line that is drawn again on a terminal,
// else a log line now and then.
type progress struct {
	to       io.Writer
	terminal bool
	width    int
	started  time.Time
	told     time.Time
	batches  int
}

func progressTo(to io.Writer, now time.Time) *progress {
	p := &progress{to: to, started: now, told: now}
	file, ok := to.(*os.File)
	if ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" && os.Getenv("CI") == "" {
		width, _, err := term.GetSize(int(file.Fd()))
		p.terminal, p.width = err == nil, width
	}
	return p
}

func (p *progress) show(total dispatch.Summary) {
	now := time.Now()
	rate := float64(total.Cards) / max(now.Sub(p.started).Seconds(), 0.001)
	if p.terminal {
		line := bar(total, rate)
		if len(line) >= p.width {
			line = line[:max(p.width-1, 0)]
		}
		_, _ = fmt.Fprintf(p.to, "\r%s\x1b[K", line) // nobody is left to tell
		return
	}
	p.batches++
	if p.batches < rolledBatches && now.Sub(p.told) < rolledTime {
		return
	}
	p.batches, p.told = 0, now
	pipeline.NewLogger(p.to).Info("progress", "run", total.Run, "batches", total.Batches, "cards", total.Cards,
		"votes", total.Votes, "fetch_failures", total.FetchFailures, "per_second", rate, "position", total.Position, "end", total.End)
}

// clear leaves an empty line for what is said next.
func (p *progress) clear() {
	if p.terminal {
		_, _ = io.WriteString(p.to, "\r\x1b[K")
	}
}

// bar draws how far the position is on the way to the catalogue's end; a sweep, which
// knows no end, is drawn without.
func bar(total dispatch.Summary, rate float64) string {
	text := fmt.Sprintf("%d batches, %d cards, %d votes, %.1f/s", total.Batches, total.Cards, total.Votes, rate)
	if total.FetchFailures > 0 {
		text += fmt.Sprintf(", %d fetches failed", total.FetchFailures)
	}
	if total.End <= 0 {
		return text
	}
	share := min(float64(total.Position)/float64(total.End), 1)
	full := int(share * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f%%  %s", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), 100*share, text)
}
