package witness

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// The poller looks every pollEvery, but spends at most one part in a share of
// its time on looking: rarely enough beside notifications to stay out of the
// measurements, more often when it is all there is.
const (
	pollEvery    = 5 * time.Millisecond
	shareExact   = 50
	shareHolders = 10
	// looksAfterExec are made without a pause beyond pollEvery once a process asked
	// to exec: between fork and exec it held every descriptor of its parent, and
	// that it lets go must not be noticed late.
	looksAfterExec = 10
	// waitsEvery and waitsLongest bound how often stranded processes are looked for.
	waitsEvery   = 100 * time.Millisecond
	waitsLongest = 500 * time.Millisecond
)

// poller watches the holder sets of all open sessions. It rests while there are none.
type poller struct {
	witness *Witness
	waits   *stranded
	hot     atomic.Int32 // looks that are to come without a longer pause
	woken   chan struct{}
	cancel  context.CancelFunc
	done    chan struct{}
}

func startPoller(w *Witness) *poller {
	ctx, cancel := context.WithCancel(context.Background())
	p := &poller{witness: w, waits: newStranded(), woken: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{})}
	var both sync.WaitGroup
	both.Go(func() { p.run(ctx) })
	both.Go(func() { p.watchWaits(ctx) })
	go func() {
		defer close(p.done)
		both.Wait()
	}()
	return p
}

// watchWaits looks for stranded processes while there are sessions. Its pauses are
// bounded, so that a wait of seconds is seen on a busy machine too.
func (p *poller) watchWaits(ctx context.Context) {
	pause := waitsEvery
	for {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		began := time.Now()
		if len(p.witness.sessions.inodes()) > 0 {
			p.waits.look(p.witness.options.Recorder, p.witness.known())
		}
		pause = min(max(waitsEvery, time.Since(began)*shareHolders), waitsLongest)
	}
}

// execing makes the next looks come soon.
func (p *poller) execing() {
	p.hot.Store(looksAfterExec)
	p.wake()
}

func (p *poller) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

func (p *poller) stop(ctx context.Context) error {
	p.cancel()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop the poller of holders: %w", context.Cause(ctx))
	}
}

func (p *poller) run(ctx context.Context) {
	for {
		began := time.Now()
		if !p.look() {
			select {
			case <-p.woken:
				continue
			case <-ctx.Done():
				return
			}
		}
		timer := time.NewTimer(p.pause(time.Since(began)))
		select {
		case <-timer.C:
		case <-p.woken:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// pause returns how long to rest after a look that took that long.
func (p *poller) pause(took time.Duration) time.Duration {
	if p.hot.Load() > 0 {
		p.hot.Add(-1)
		return pollEvery
	}
	return max(pollEvery, took*p.share())
}

func (p *poller) share() time.Duration {
	if p.witness.Certainty() == Exact {
		return shareExact
	}
	return shareHolders
}

// look scans once. It returns false when there is no session to look at. A
// session that was registered during the scan is left for the next one.
func (p *poller) look() bool {
	inodes := p.witness.sessions.inodes()
	if len(inodes) == 0 {
		return false
	}
	found := scanHolders(p.witness.known(), inodes)
	for inode := range inodes {
		p.witness.observed(inode, found[inode])
	}
	return true
}
