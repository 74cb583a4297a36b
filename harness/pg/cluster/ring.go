package cluster

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"deadwire/harness/pg"
)

// TailLines is how many entries a start error shows.
const TailLines = 40

// Log is where a server's entries go: a file for people, the caller, and a short
// memory for start errors. It is safe for concurrent use.
type Log struct {
	mu    sync.Mutex
	file  io.Writer
	onLog func(pg.LogEntry)
	tail  []string
	err   error
}

// NewLog returns a Log that writes to file and calls onLog, which may be nil.
func NewLog(file io.Writer, onLog func(pg.LogEntry)) *Log { return &Log{file: file, onLog: onLog} }

// Entry takes the next entry.
func (l *Log) Entry(e pg.LogEntry) {
	line := format(e)
	l.mu.Lock()
	if len(l.tail) == TailLines {
		l.tail = slices.Delete(l.tail, 0, 1)
	}
	l.tail = append(l.tail, line)
	if _, err := io.WriteString(l.file, line+"\n"); err != nil && l.err == nil {
		l.err = fmt.Errorf("write server log: %w", err)
	}
	l.mu.Unlock()
	if l.onLog != nil {
		l.onLog(e)
	}
}

// Tail returns the last entries, oldest first.
func (l *Log) Tail() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.tail)
}

// Err returns the first error of writing the file, such as a full disk.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// format returns an entry as it stands in postgres.log, further lines indented
// by a tab as PostgreSQL itself does it.
func format(e pg.LogEntry) string {
	text := strings.ReplaceAll(e.Text, "\n", "\n\t")
	if e.Severity == "" {
		return text
	}
	head := fmt.Sprintf("%s [%d]", e.Time.Format("2006-01-02 15:04:05.000 MST"), e.BackendPID)
	for _, field := range []string{e.Database, e.ApplicationName, e.SQLState} {
		if field != "" {
			head += " " + field
		}
	}
	return head + " " + e.Severity + ": " + text
}
