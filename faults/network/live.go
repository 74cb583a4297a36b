package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"deadwire/faults"
	"deadwire/harness/event"
	"deadwire/harness/tap"
)

// HalfClose ends one direction only: one side is told by a FIN that nothing
// more will come, while what it sends is still delivered.
type HalfClose struct {
	Towards string              `json:"towards" enum:"subject,server" doc:"which side gets the FIN"`
	Session string              `json:"session,omitempty" doc:"role of the live sessions; default all"`
	At      faults.MessageMatch `json:"at,omitzero" doc:"the message at which it happens; without it, at once"`
	Skip    int                 `json:"skip,omitempty" doc:"with at: let that many matching messages pass first"`
}

// Name implements faults.Fault.
func (HalfClose) Name() string { return "network.half-close" }

// Arm implements faults.Armer: the rule must be set before the message can come.
func (f HalfClose) Arm() bool { return !f.At.IsZero() }

// Available implements faults.Fault.
func (HalfClose) Available(t faults.Target) error { return t.HasTap() }

// Expects implements faults.Expecter.
func (f HalfClose) Expects() []faults.Expectation {
	role := f.Session
	if f.Arm() {
		role = f.At.Session
	}
	return []faults.Expectation{{Rule: "network.closed", Role: role}}
}

// Inject implements faults.Fault.
func (f HalfClose) Inject(_ context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	cut, known := map[string]tap.Cut{"subject": tap.CutFrontendFIN, "server": tap.CutBackendFIN}[f.Towards]
	if !known {
		return nil, fmt.Errorf("towards: %q: want subject or server", f.Towards)
	}
	var half sessions
	remove := func() {}
	var errs []error
	if f.Arm() {
		remove = t.Front.AddRule(tap.Rule{
			Cause: t.ID, Match: f.At.On, Skip: f.Skip, Do: cut,
			Fired: func(s *tap.Session, m event.Message) {
				half.add(s)
				t.Bit(rec, f, s.ID(), 0, "FIN to the "+f.Towards+" at "+say(m))
			},
		})
	} else {
		errs = f.now(t, rec, cut, &half)
	}
	return faults.HealOnce(func(context.Context) error {
		remove()
		return release(half.all())
	}), errors.Join(errs...)
}

func (f HalfClose) now(t faults.Target, rec event.Recorder, cut tap.Cut, half *sessions) (errs []error) {
	for _, s := range t.Sessions(f.Session) {
		if err := s.Cut(cut, t.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		half.add(s)
		t.Bit(rec, f, s.ID(), 0, "FIN to the "+f.Towards)
	}
	return errs
}

// Refuse turns new connections away with ECONNREFUSED; live sessions go on.
type Refuse struct{}

// Name implements faults.Fault.
func (Refuse) Name() string { return "network.refuse" }

// Available implements faults.Fault.
func (Refuse) Available(t faults.Target) error { return t.HasTap() }

// Inject implements faults.Fault. A refused connection leaves no trace at the
// tap, so a connection of our own shows that the port refuses.
func (f Refuse) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	t.Front.Refuse(true)
	heal := faults.HealOnce(func(context.Context) error { t.Front.Refuse(false); return nil })
	probe, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.Front.Addr().String())
	switch {
	case err == nil:
		return heal, errors.Join(errors.New("a connection was still accepted"), probe.Close())
	case !errors.Is(err, syscall.ECONNREFUSED):
		return heal, fmt.Errorf("a connection of our own: %w", err)
	}
	t.Bit(rec, f, event.SessionID{}, 0, "a connection of our own was refused")
	return heal, nil
}

// IdleCut forgets sessions that have been idle for some time, as a load
// balancer, a firewall or a NAT does: both sockets stay open, and every byte
// that comes later is swallowed.
type IdleCut struct {
	AfterMS int    `json:"after_ms" doc:"idle time in milliseconds after which a session is forgotten"`
	Session string `json:"session,omitempty" doc:"role of the sessions; default all"`
}

// Name implements faults.Fault.
func (IdleCut) Name() string { return "network.idle-cut" }

// Available implements faults.Fault.
func (IdleCut) Available(t faults.Target) error { return t.HasTap() }

// Expects implements faults.Expecter.
func (f IdleCut) Expects() []faults.Expectation {
	return []faults.Expectation{{Rule: "network.silent-drop", Role: f.Session}}
}

// idleLook is how often the idle time is looked at.
const idleLook = 5 * time.Millisecond

// Inject implements faults.Fault.
func (f IdleCut) Inject(ctx context.Context, t faults.Target, rec event.Recorder) (faults.Heal, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var forgotten sessions
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(idleLook)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				f.look(t, rec, &forgotten)
			}
		}
	}()
	return faults.HealOnce(func(context.Context) error {
		cancel()
		<-done
		return release(forgotten.all())
	}), nil
}

// look forgets the sessions that are idle long enough by now.
func (f IdleCut) look(t faults.Target, rec event.Recorder, forgotten *sessions) {
	limit := time.Duration(f.AfterMS) * time.Millisecond
	for _, s := range t.Sessions(f.Session) {
		idle := s.State() == event.Idle && s.Idle() >= limit
		if idle && !forgotten.has(s) && s.Cut(tap.CutBlackhole, t.ID) == nil {
			forgotten.add(s)
			t.Bit(rec, f, s.ID(), 0, fmt.Sprintf("idle for %d ms or more", f.AfterMS))
		}
	}
}

// sessions is a set that a rule may add to while a heal reads it.
type sessions struct {
	mu   sync.Mutex
	list []*tap.Session
}

func (s *sessions) add(one *tap.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, one)
}

func (s *sessions) all() []*tap.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*tap.Session(nil), s.list...)
}

func (s *sessions) has(one *tap.Session) bool {
	for _, have := range s.all() {
		if have == one {
			return true
		}
	}
	return false
}

// releaseAfter waits until a message is held, then that many milliseconds.
func releaseAfter(ctx context.Context, held <-chan struct{}, ms int, release func()) {
	select {
	case <-held:
	case <-ctx.Done():
		return
	}
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
		release()
	case <-ctx.Done():
	}
}
