package subject

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"deadwire/harness/event"
)

const (
	// lineBytesMax bounds a line; a longer one is recorded in pieces.
	lineBytesMax = 8 << 10
	// drainBytesMax is more than a pipe can hold, so it is all that a process
	// that has exited can have left in one.
	drainBytesMax = 1 << 20
)

// output captures the two streams of a subject.
type output struct {
	streams [2]*stream
	readers sync.WaitGroup

	mu   sync.Mutex
	tail []event.Output
	max  int
}

func newOutput(recorder event.Recorder, tailLines int) (*output, error) {
	if tailLines <= 0 {
		tailLines = DefaultTailLines
	}
	o := &output{max: tailLines}
	hide := newSecrets()
	for n, name := range []string{"stdout", "stderr"} {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make pipe: %w", err), o.close())
		}
		raw, err := r.SyscallConn()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make pipe: %w", err), r.Close(), w.Close(), o.close())
		}
		o.streams[n] = &stream{name: name, reader: r, writer: w, raw: raw, keep: o.keep, recorder: recorder, hide: hide}
	}
	return o, nil
}

func (o *output) tee(stdout, stderr io.Writer) {
	o.streams[0].tee, o.streams[1].tee = stdout, stderr
}

func (o *output) writers() (stdout, stderr *os.File) {
	return o.streams[0].writer, o.streams[1].writer
}

// start begins to read. The ends that the subject writes to are its own by now.
func (o *output) start() {
	for _, s := range o.streams {
		_ = s.writer.Close()
		o.readers.Go(s.read)
	}
}

// drain takes what lies in the pipes now.
func (o *output) drain() {
	for _, s := range o.streams {
		s.drain()
	}
}

// close ends reading, even if a process that was never known keeps a pipe open.
func (o *output) close() error {
	var errs []error
	for _, s := range o.streams {
		if s == nil {
			continue
		}
		s.drain()
		errs = append(errs, s.reader.Close())
		_ = s.writer.Close() // closed before, if the subject was started
	}
	o.readers.Wait()
	for _, s := range o.streams {
		if s != nil {
			s.flush()
		}
	}
	return errors.Join(errs...)
}

func (o *output) keep(line event.Output) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tail = append(o.tail, line)
	if len(o.tail) > o.max {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-o.max:]...)
	}
}

func (o *output) lastLines() []event.Output {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]event.Output(nil), o.tail...)
}

// stream is one pipe from the subject.
type stream struct {
	name           string
	reader, writer *os.File
	raw            syscall.RawConn
	keep           func(event.Output)
	recorder       event.Recorder
	hide           secrets

	mu      sync.Mutex // held from a read until its lines are recorded
	tee     io.Writer
	partial []byte
	chunk   [16 << 10]byte
}

// read follows the pipe until all writers are gone or it is closed. The
// callback does the reading itself, so that drain can do the same step and
// know, once nothing is left, that everything was recorded.
func (s *stream) read() {
	_ = s.raw.Read(func(fd uintptr) bool {
		for {
			n := s.step(fd)
			if n == 0 {
				return true
			}
			if n < 0 {
				return false
			}
		}
	})
}

func (s *stream) drain() {
	_ = s.raw.Control(func(fd uintptr) {
		for taken := 0; taken < drainBytesMax; {
			n := s.step(fd)
			if n <= 0 {
				return
			}
			taken += n
		}
	})
}

// step reads once without blocking: the number of bytes, 0 at the end, or -1
// when there is nothing now.
func (s *stream) step(fd uintptr) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		n, err := syscall.Read(int(fd), s.chunk[:])
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return -1
		case err != nil:
			return 0
		}
		s.take(s.chunk[:n])
		return n
	}
}

func (s *stream) take(fresh []byte) {
	if s.tee != nil {
		if _, err := s.tee.Write(fresh); err != nil {
			s.tee = nil
		}
	}
	s.partial = append(s.partial, fresh...)
	rest := s.partial
	for {
		line, after, complete := cutLine(rest)
		if !complete {
			break
		}
		s.record(line)
		rest = after
	}
	s.partial = append(s.partial[:0], rest...)
}

// cutLine takes one line, or one full piece of a line that is too long.
func cutLine(text []byte) (line, rest []byte, complete bool) {
	end := bytes.IndexByte(text, '\n')
	switch {
	case end >= 0 && end <= lineBytesMax:
		return text[:end], text[end+1:], true
	case len(text) >= lineBytesMax:
		return text[:lineBytesMax], text[lineBytesMax:], true
	default:
		return nil, text, false
	}
}

// flush records a last line that had no end.
func (s *stream) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.partial) > 0 {
		s.record(s.partial)
		s.partial = nil
	}
}

func (s *stream) record(line []byte) {
	text := s.hide.text(string(bytes.TrimSuffix(line, []byte("\r"))))
	text = string(bytes.ToValidUTF8([]byte(text), []byte("\uFFFD")))
	entry := event.Output{Stream: s.name, Text: text}
	s.keep(entry)
	s.recorder.Record(event.Event{Kind: event.SubjectOutput, Output: &entry})
}
