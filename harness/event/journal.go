package event

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// limits of a journal
const (
	// DefaultEventsMax bounds a journal: about 100 MB of memory at 200 bytes an event.
	DefaultEventsMax = 500_000
	lineBytesMax     = 1 << 20
)

// Journal is an append-only, bounded record of events. It keeps them in memory
// for live triggers and judges, and writes each as a JSON line as it comes.
type Journal struct {
	began time.Time
	max   int

	mu      sync.Mutex
	events  []Event
	out     *bufio.Writer
	err     error
	full    bool
	dropped int64
	changed chan struct{} // closed and replaced at each event
}

// NewJournal returns a journal that writes JSON lines to w, which may be nil,
// and keeps at most eventsMax events (0: DefaultEventsMax). When the bound is
// reached one JournalFull event is kept and the rest are counted as dropped.
func NewJournal(w io.Writer, eventsMax int) *Journal {
	if eventsMax <= 0 {
		eventsMax = DefaultEventsMax
	}
	j := &Journal{began: time.Now(), max: eventsMax, changed: make(chan struct{})}
	if w != nil {
		j.out = bufio.NewWriter(w)
	}
	return j
}

// Now returns the time since the journal began.
func (j *Journal) Now() time.Duration { return time.Since(j.began) }

// Record implements Recorder.
func (j *Journal) Record(e Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.full {
		j.dropped++
		return
	}
	if len(j.events) == j.max-1 {
		j.full = true
		j.dropped++ // e itself: its place is taken by the notice
		e = Event{Kind: JournalFull}
	}
	if e.At == 0 {
		e.At = j.Now()
	}
	e.Seq = int64(len(j.events) + 1)
	j.events = append(j.events, e)
	j.write(e)
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *Journal) write(e Event) {
	if j.out == nil || j.err != nil {
		return
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.out.Write(append(line, '\n'))
	}
	// Flushed per event: a killed run must leave a readable journal.
	j.err = errors.Join(err, j.out.Flush())
}

// Err returns the first error of writing the journal out, such as a full disk.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Dropped returns how many events were not kept because the journal was full.
func (j *Journal) Dropped() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.dropped
}

// Events returns a copy of all events so far.
func (j *Journal) Events() []Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.events)
}

// Last returns the position of the newest event, 0 when there is none.
func (j *Journal) Last() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return int64(len(j.events))
}

// Await returns the first event after position since for which match is true,
// waiting for it if it has not happened yet. The error of an expired ctx names
// what was awaited.
func (j *Journal) Await(ctx context.Context, since int64, what string, match func(Event) bool) (Event, error) {
	for next := since; ; {
		fresh, changed := j.after(next)
		for _, e := range fresh {
			if match(e) {
				return e, nil
			}
		}
		next += int64(len(fresh))
		select {
		case <-changed:
		case <-ctx.Done():
			return Event{}, fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		}
	}
}

func (j *Journal) after(seq int64) ([]Event, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.events[min(seq, int64(len(j.events))):]), j.changed
}

// Read returns the events of a journal written by Record. A torn last line, as
// a killed run leaves it, is not an error.
func Read(r io.Reader) ([]Event, error) {
	var events []Event
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, lineBytesMax)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			if !lines.Scan() {
				return events, lines.Err()
			}
			return events, fmt.Errorf("journal line %d: %w", len(events)+1, err)
		}
		events = append(events, e)
	}
	return events, lines.Err()
}
