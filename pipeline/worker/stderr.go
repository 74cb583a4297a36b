package worker

import (
	"bufio"
	"io"
	"regexp"
	"sync"
)

const (
	tailLines = 30
	lineLimit = 16 << 10 // longer lines are passed on in pieces
)

// crashLine is how the Go runtime begins a crash report (runtime: printpanics, throw, sighandler)
var crashLine = regexp.MustCompile(`^(panic: |fatal error: |SIG[A-Z]+: )`)

// lineWriter lets several workers share the coordinator's stderr without mixing lines
type lineWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lineWriter) line(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.to.Write(append(b, '\n')) // a closed stderr must not stop the work
}

// tail remembers the end of one worker's stderr, and how its crash began
type tail struct {
	lines []string
	crash string
}

// relay passes whole lines on until the worker's end of the pipe is closed
func (t *tail) relay(from io.Reader, to *lineWriter) {
	r := bufio.NewReaderSize(from, lineLimit)
	for {
		line, _, err := r.ReadLine()
		if err != nil {
			return
		}
		t.keep(string(line))
		to.line(line[:len(line):len(line)])
	}
}

func (t *tail) keep(line string) {
	if t.crash == "" && crashLine.MatchString(line) {
		t.crash = line
	}
	if len(t.lines) == tailLines {
		t.lines = append(t.lines[:0], t.lines[1:]...)
	}
	t.lines = append(t.lines, line)
}
