package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"deadwire/harness/pg"
)

// The prefix of each log line: a mark and then time, pid, SQLSTATE, database and
// application name, each ended by a control character. PostgreSQL replaces
// such characters in application names, so no client can forge a field.
const (
	fieldEnd   = "\x1f"
	mark       = "\x1e"
	linePrefix = mark + "%n" + fieldEnd + "%p" + fieldEnd + "%e" + fieldEnd + "%d" + fieldEnd + "%a" + fieldEnd
)

const (
	// settleTime is how long an entry waits for more of its lines. PostgreSQL
	// writes an entry in one call, so they are there at once, or after a full pipe.
	settleTime   = 5 * time.Millisecond
	textBytesMax = 64 << 10 // of one entry; what follows is cut off
	readBytes    = 64 << 10
)

// Folder folds the lines of a server's log into entries.
type Folder struct {
	emit    func(pg.LogEntry)
	entry   pg.LogEntry
	open    bool // entry waits for more lines
	keeping bool // continuation lines belong to a part that is kept
}

// NewFolder returns a Folder that hands each finished entry to emit.
func NewFolder(emit func(pg.LogEntry)) *Folder { return &Folder{emit: emit} }

// Line takes the next line, without its newline.
func (f *Folder) Line(line string) {
	if more, continues := strings.CutPrefix(line, "\t"); continues && f.open {
		f.add("\n" + more)
		return
	}
	head, word, text, ok := parseLine(line)
	switch {
	case !ok:
		f.raw(line)
	case isDetail(word):
		f.detail(head, word, text)
	default:
		f.Flush()
		head.Severity = word
		f.entry, f.open, f.keeping = head, true, true
		f.add(text)
	}
}

// Flush hands out the entry that waits for more lines, if any.
func (f *Folder) Flush() {
	if f.open {
		f.open = false
		f.emit(f.entry)
	}
}

func (f *Folder) add(text string) {
	if f.keeping && len(f.entry.Text) < textBytesMax {
		f.entry.Text += text[:min(len(text), textBytesMax-len(f.entry.Text))]
	}
}

// detail takes a line that belongs to the entry before it. DETAIL and HINT are
// kept; the others may quote statements and values. One whose entry is gone
// (another backend wrote in between) is dropped.
func (f *Folder) detail(head pg.LogEntry, word, text string) {
	if !f.open || head.BackendPID != f.entry.BackendPID {
		f.Flush()
		return
	}
	f.keeping = word == "DETAIL" || word == "HINT"
	f.add("\n" + word + ": " + text)
}

// raw takes a line without our prefix: what the postmaster says before it has
// read its configuration, or what the loader or a library says.
func (f *Folder) raw(line string) {
	f.Flush()
	if line != "" {
		f.emit(pg.LogEntry{Time: time.Now(), Text: line})
	}
}

func parseLine(line string) (head pg.LogEntry, word, text string, ok bool) {
	rest, marked := strings.CutPrefix(line, mark)
	fields := strings.SplitN(rest, fieldEnd, 6)
	if !marked || len(fields) != 6 {
		return head, "", "", false
	}
	word, text, ok = strings.Cut(fields[5], ":")
	pid, err := strconv.Atoi(fields[1])
	at, timeErr := parseTime(fields[0])
	if !ok || err != nil || timeErr != nil {
		return head, "", "", false
	}
	head = pg.LogEntry{Time: at, BackendPID: pid, SQLState: fields[2], Database: known(fields[3]), ApplicationName: known(fields[4])}
	if head.SQLState == "00000" { // successful completion: of a LOG line, not of an error
		head.SQLState = ""
	}
	return head, word, strings.TrimLeft(text, " "), true
}

// known drops what PostgreSQL writes for a field that start-up has not told yet.
func known(field string) string {
	if field == "[unknown]" {
		return ""
	}
	return field
}

// parseTime reads what %n writes: seconds of the Unix epoch and milliseconds.
func parseTime(text string) (time.Time, error) {
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(int64(seconds*1000 + 0.5)).UTC(), nil
}

func isDetail(word string) bool {
	switch word {
	case "DETAIL", "HINT", "CONTEXT", "STATEMENT", "QUERY", "LOCATION", "BACKTRACE":
		return true
	default:
		return false
	}
}

// DeadlineReader is the reading end of a pipe.
type DeadlineReader interface {
	io.Reader
	SetReadDeadline(time.Time) error
}

// ReadLog folds what comes out of r until it ends, and hands each entry to emit.
// An entry is handed out as soon as it is whole, without waiting for the next.
func ReadLog(r DeadlineReader, emit func(pg.LogEntry)) error {
	folder := NewFolder(emit)
	defer folder.Flush()
	buffer, held := make([]byte, readBytes), ""
	for {
		n, err := r.Read(buffer)
		held = eachLine(held+string(buffer[:n]), folder.Line)
		deadline := time.Time{}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			folder.Flush()
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed):
			folder.Line(held)
			return nil
		case err != nil:
			return fmt.Errorf("read server log: %w", err)
		case folder.open:
			deadline = time.Now().Add(settleTime)
		}
		if err := r.SetReadDeadline(deadline); err != nil && !errors.Is(err, os.ErrClosed) {
			return fmt.Errorf("read server log: %w", err)
		}
	}
}

// eachLine calls do for each whole line and returns what is left.
func eachLine(text string, do func(string)) string {
	for {
		line, rest, whole := strings.Cut(text, "\n")
		if !whole {
			return text
		}
		do(line)
		text = rest
	}
}
