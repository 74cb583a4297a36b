package cluster

import (
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"pgregory.net/rapid"

	"deadwire/harness/pg"
)

func mustDecode(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	assert.NilError(t, err)
	return raw
}

// said returns a line as PostgreSQL writes it with our prefix.
func said(pid int, state, text string) string {
	return strings.NewReplacer("%n", "1700000000.123", "%p", fmt.Sprint(pid), "%e", state, "%d", "shop", "%a", "web | x").Replace(linePrefix) + text
}

func fold(lines ...string) []pg.LogEntry {
	var got []pg.LogEntry
	folder := NewFolder(func(e pg.LogEntry) { got = append(got, e) })
	for _, line := range lines {
		folder.Line(line)
	}
	folder.Flush()
	return got
}

func TestFolder(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lines []string
		want  []string // PID SEVERITY SQLSTATE text
	}{
		"a plain entry": {
			[]string{said(7, "00000", "LOG:  ready")},
			[]string{"7 LOG  ready"},
		},
		"continuation lines": {
			[]string{said(7, "42601", "ERROR:  first"), "\tsecond", "\tthird"},
			[]string{"7 ERROR 42601 first\nsecond\nthird"},
		},
		"detail and hint are kept": {
			[]string{said(7, "23505", "ERROR:  duplicate"), said(7, "23505", "DETAIL:  Key (id)=(1)"), "\tmore", said(7, "23505", "HINT:  try")},
			[]string{"7 ERROR 23505 duplicate\nDETAIL: Key (id)=(1)\nmore\nHINT: try"},
		},
		"statement and context are dropped with all their lines": {
			[]string{said(7, "22012", "ERROR:  division"), said(7, "22012", "CONTEXT:  unnamed portal with parameters: $1 = 'x'"), "\tx", said(7, "22012", "STATEMENT:  select"), "\tsecret", said(7, "00000", "LOG:  next")},
			[]string{"7 ERROR 22012 division", "7 LOG  next"},
		},
		"a detail of another backend is not mixed in": {
			[]string{said(7, "22012", "ERROR:  mine"), said(8, "22012", "DETAIL:  not mine"), said(7, "22012", "HINT:  late")},
			[]string{"7 ERROR 22012 mine"},
		},
		"lines without prefix": {
			[]string{"postgres: could not find a directory", said(7, "00000", "LOG:  x"), "Killed", ""},
			[]string{"0   postgres: could not find a directory", "7 LOG  x", "0   Killed"},
		},
		"a broken prefix is a raw line": {
			[]string{mark + "soon" + fieldEnd + "7"},
			[]string{"0   " + mark + "soon" + fieldEnd + "7"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, e := range fold(tc.lines...) {
				got = append(got, fmt.Sprintf("%d %s %s %s", e.BackendPID, e.Severity, e.SQLState, e.Text))
			}
			assert.DeepEqual(t, got, tc.want)
		})
	}
}

func TestFolderReadsThePrefix(t *testing.T) {
	t.Parallel()
	entries := fold(said(7, "00000", "LOG:  x"))
	assert.DeepEqual(t, entries, []pg.LogEntry{{
		Time: time.UnixMilli(1_700_000_000_123).UTC(), BackendPID: 7, Severity: "LOG", Text: "x",
		Database: "shop", ApplicationName: "web | x",
	}})
}

func TestFolderBoundsAnEntry(t *testing.T) {
	t.Parallel()
	lines := []string{said(7, "00000", "LOG:  x")}
	for range 100 {
		lines = append(lines, "\t"+strings.Repeat("y", 1000))
	}
	assert.Equal(t, len(fold(lines...)[0].Text), textBytesMax)
}

// Whatever comes out of a server, no line may panic, and none of its secrets
// may surface outside of the message they stand in.
func TestFolderTakesAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{mark, fieldEnd, "\t", "ERROR:", "DETAIL:", "STATEMENT:", "7", "1700000000.1", "x", ":"})
		lines := rapid.SliceOf(rapid.Map(rapid.SliceOf(piece), func(p []string) string { return strings.Join(p, "") })).Draw(t, "lines")
		for _, e := range fold(lines...) {
			if len(e.Text) > textBytesMax+len("\nSTATEMENT: ") {
				t.Fatalf("entry of %d bytes", len(e.Text))
			}
		}
	})
}

func TestReadLogHandsOutWithoutWaitingForMore(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	assert.NilError(t, err)
	got, done := make(chan pg.LogEntry), make(chan error, 1)
	go func() { done <- ReadLog(reader, func(e pg.LogEntry) { got <- e }) }()
	for _, part := range []string{said(7, "00000", "LOG:  in two "), "pieces\n"} {
		_, err = io.WriteString(writer, part)
		assert.NilError(t, err)
	}
	assert.Equal(t, (<-got).Text, "in two pieces") // nothing else was written, and the pipe is open
	_, err = io.WriteString(writer, "no newline at the end")
	assert.NilError(t, err)
	assert.NilError(t, writer.Close())
	assert.Equal(t, (<-got).Text, "no newline at the end")
	assert.NilError(t, <-done)
}

func TestLogKeepsATailAndWritesForPeople(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	var seen int
	log := NewLog(&file, func(pg.LogEntry) { seen++ })
	for i := range TailLines + 1 {
		log.Entry(pg.LogEntry{Time: time.UnixMilli(0).UTC(), BackendPID: i, Severity: "ERROR", SQLState: "22012", Database: "shop", Text: "a\nb"})
	}
	assert.NilError(t, log.Err())
	assert.Equal(t, seen, TailLines+1)
	assert.Equal(t, len(log.Tail()), TailLines)
	assert.Equal(t, log.Tail()[0], "1970-01-01 00:00:00.000 UTC [1] shop 22012 ERROR: a\n\tb")
	assert.Equal(t, strings.Count(file.String(), "ERROR: a\n\tb\n"), TailLines+1)
}
