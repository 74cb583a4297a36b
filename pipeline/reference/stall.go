package reference

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrStalled says that a source sent nothing for too long.
var ErrStalled = errors.New("source stalled")

// watch cancels a transfer that stands still
type watch struct {
	timer *time.Timer
	most  time.Duration
}

func newWatch(most time.Duration, cancel context.CancelCauseFunc) *watch {
	if most <= 0 {
		most = stallDefault
	}
	return &watch{timer: time.AfterFunc(most, func() { cancel(ErrStalled) }), most: most}
}

func (w *watch) stop() { w.timer.Stop() }

// watched lets the time run only while it is read: a slow consumer is no stall
type watched struct {
	io.Reader
	watch *watch
	cause func() error
}

func (r *watched) Read(p []byte) (int, error) {
	r.watch.timer.Reset(r.watch.most)
	n, err := r.Reader.Read(p)
	r.watch.stop()
	if err != nil && !errors.Is(err, io.EOF) {
		if cause := r.cause(); cause != nil {
			err = cause
		}
	}
	return n, err
}
