// Package frame owns the byte layout of messages on a pipe between two processes:
// a head, which describes, and a body, which is raw bytes such as an image. It
// does not own what a head means, nor the pipe, nor any process. The two ends are
// the authority on meaning; this package is it on lengths, limits and truncation.
//
// One frame is an 8-byte prefix, two big-endian 32-bit lengths (head, body), then
// the head, then the body. Bodies travel as they are, so an image is not inflated
// by an encoding.
package frame

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// DefaultLimit bounds head plus body of one frame, in bytes, where no other limit is given.
const DefaultLimit = 64 << 20

const (
	prefixSize = 8
	// firstRead bounds what a length that was only claimed can make us allocate
	firstRead = 64 << 10
)

// ErrTruncated says that the stream ended inside a frame: the writer died or was cut off.
var ErrTruncated = errors.New("frame truncated")

// TooLargeError says that a frame is over the limit. Nothing of it was written
// or, on the reading side, nothing after its prefix was read: the stream cannot be used further.
type TooLargeError struct {
	Size  int64 // head plus body, bytes
	Limit int64 // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("frame of %d bytes is over the limit of %d", e.Size, e.Limit)
}

// Frame is one message.
type Frame struct {
	Head []byte
	Body []byte
}

// Writer writes frames. It is not safe for concurrent use.
type Writer struct {
	to    io.Writer
	limit int64
}

// NewWriter returns a writer that refuses frames over limit bytes; zero or less means DefaultLimit.
func NewWriter(to io.Writer, limit int64) *Writer {
	return &Writer{to: to, limit: limitOr(limit)}
}

// Write sends one frame. A frame over the limit is refused with *TooLargeError
// before anything is written; any other error leaves the stream unusable.
func (w *Writer) Write(f Frame) error {
	size := int64(len(f.Head)) + int64(len(f.Body))
	if size > w.limit {
		return &TooLargeError{Size: size, Limit: w.limit}
	}
	// prefix and head go out together: one system call less per message
	start := make([]byte, prefixSize, prefixSize+len(f.Head))
	binary.BigEndian.PutUint32(start[0:4], uint32(len(f.Head)))
	binary.BigEndian.PutUint32(start[4:8], uint32(len(f.Body)))
	if _, err := w.to.Write(append(start, f.Head...)); err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	if len(f.Body) == 0 {
		return nil
	}
	if _, err := w.to.Write(f.Body); err != nil {
		return fmt.Errorf("write frame body: %w", err)
	}
	return nil
}

// WriteJSON sends head as JSON with body as it is.
func (w *Writer) WriteJSON(head any, body []byte) error {
	encoded, err := json.Marshal(head)
	if err != nil {
		return fmt.Errorf("encode frame head: %w", err)
	}
	return w.Write(Frame{Head: encoded, Body: body})
}

// Reader reads frames. It is not safe for concurrent use.
type Reader struct {
	from  io.Reader
	limit int64
}

// NewReader returns a reader that refuses frames over limit bytes; zero or less means DefaultLimit.
func NewReader(from io.Reader, limit int64) *Reader {
	return &Reader{from: from, limit: limitOr(limit)}
}

// Read returns the next frame, which the caller then owns. The error is io.EOF
// itself when the stream ends between frames, wraps ErrTruncated when it ends
// inside one, and is a *TooLargeError when the announced size is over the limit.
func (r *Reader) Read() (Frame, error) {
	var prefix [prefixSize]byte
	switch _, err := io.ReadFull(r.from, prefix[:]); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Frame{}, fmt.Errorf("read frame prefix: %w", ErrTruncated)
	case err == io.EOF:
		return Frame{}, io.EOF
	case err != nil:
		return Frame{}, fmt.Errorf("read frame prefix: %w", err)
	}
	head := int64(binary.BigEndian.Uint32(prefix[0:4]))
	body := int64(binary.BigEndian.Uint32(prefix[4:8]))
	if head+body > r.limit {
		return Frame{}, &TooLargeError{Size: head + body, Limit: r.limit}
	}
	return r.parts(head, body)
}

// ReadJSON reads one frame, decodes its head into head and returns its body.
// Errors are those of Read, and those of the decoder.
func (r *Reader) ReadJSON(head any) (body []byte, err error) {
	f, err := r.Read()
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(f.Head, head); err != nil {
		return nil, fmt.Errorf("decode frame head: %w", err)
	}
	return f.Body, nil
}

func (r *Reader) parts(head, body int64) (Frame, error) {
	h, err := r.take(head)
	if err != nil {
		return Frame{}, fmt.Errorf("read frame head: %w", err)
	}
	b, err := r.take(body)
	if err != nil {
		return Frame{}, fmt.Errorf("read frame body: %w", err)
	}
	return Frame{Head: h, Body: b}, nil
}

// take reads n bytes. Memory grows with what arrives, not with what was
// announced, so a broken prefix cannot cost more than twice the bytes behind it.
func (r *Reader) take(n int64) ([]byte, error) {
	got := make([]byte, 0, min(n, firstRead))
	for int64(len(got)) < n {
		if len(got) == cap(got) {
			got = append(make([]byte, 0, min(n, 2*int64(cap(got)))), got...)
		}
		m, err := io.ReadFull(r.from, got[len(got):cap(got)])
		got = got[:len(got)+m]
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, ErrTruncated
		default:
			return nil, err
		}
	}
	return got, nil
}

func limitOr(limit int64) int64 {
	if limit <= 0 {
		return DefaultLimit
	}
	return limit
}
