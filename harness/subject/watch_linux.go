package subject

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// start begins to watch: for exits, by pidfd, at the moment they happen; for
// new processes and new programs, by looking every few milliseconds.
func (t *tree) start() {
	t.workers.Go(t.watchExits)
	t.workers.Go(t.poll)
}

// stop ends the watch. The tree must be empty. It works for a tree that was
// never started.
func (t *tree) stop() error {
	close(t.quit)
	_, err := unix.Write(t.stopping, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	t.workers.Wait()
	if t.root != nil {
		t.root.closePidfd()
	}
	return errors.Join(err, unix.Close(t.epoll), unix.Close(t.stopping))
}

func (t *tree) watchExits() {
	events := make([]unix.EpollEvent, 32)
	for {
		n, err := unix.EpollWait(t.epoll, events, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		at := t.recorder.Now()
		if err != nil {
			return
		}
		for _, e := range events[:n] {
			if int(e.Fd) == t.stopping {
				return
			}
			t.exited(int(e.Fd), at)
		}
	}
}

// exited records the end of the process behind a pidfd.
func (t *tree) exited(pidfd int, at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.processes {
		// The number may have been closed and opened again since: ask it.
		if p.pidfd != pidfd || p.exited || !p.ready() {
			continue
		}
		_ = unix.EpollCtl(t.epoll, unix.EPOLL_CTL_DEL, pidfd, nil)
		status, reaped := p.status()
		t.recordExit(p, at, status)
		if reaped {
			t.forget(p)
		}
		t.wake()
		return
	}
}

func (t *tree) wake() {
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

func (t *tree) poll() {
	var adopted time.Time
	for {
		began := time.Now()
		pending := t.round()
		if time.Since(adopted) >= adoptEvery {
			t.adopt()
			adopted = time.Now()
		}
		share := time.Duration(shareLooking)
		if t.told.Load() {
			share = shareTold
		}
		pause := max(pollEvery, time.Since(began)*share)
		if pending {
			pause = pollSoon
		}
		if !t.rest(pause) {
			return
		}
	}
}

// round looks once. It returns true if an exec was asked for and not yet seen.
func (t *tree) round() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.explore()
	t.reap()
	for _, p := range t.processes {
		if p.execing && !p.exited {
			return true
		}
	}
	return false
}

// rest returns false when it is time to stop.
func (t *tree) rest(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.woken:
		return true
	case <-t.quit:
		return false
	}
}
