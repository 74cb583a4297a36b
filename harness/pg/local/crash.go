package local

import (
	"context"
	"fmt"
	"time"

	"deadwire/harness/pg"
)

// crashTimeout bounds the way from the kill until sessions are accepted again.
const crashTimeout = 60 * time.Second

// CrashBackend implements pg.Server. Besides client backends the postmaster's
// helpers (checkpointer, WAL writer, …) are its children too; all have the
// same effect.
func (s *server) CrashBackend(ctx context.Context, backendPID int) error {
	err := s.inTurn(ctx, func() error {
		if s.stopped {
			return errStopped
		}
		return s.crash(ctx, backendPID)
	})
	if err != nil {
		return fmt.Errorf("crash backend %d: %w", backendPID, err)
	}
	return nil
}

// crash kills the backend, and knows by a session of its own, which is cut like
// all others, that the postmaster has noticed: before that a new session would
// still be accepted, and prove nothing.
func (s *server) crash(ctx context.Context, backendPID int) error {
	ctx, cancel := context.WithTimeout(ctx, crashTimeout)
	defer cancel()
	sentinel, err := pg.Connect(ctx, s.Address().SocketURL(s.Address().Database))
	if err != nil {
		return fmt.Errorf("open sentinel session: %w", err)
	}
	defer func() { _ = sentinel.Close(context.WithoutCancel(ctx)) }() // cut by then, or the error is told already
	p := s.current()
	if err := killChild(p.PID, backendPID); err != nil {
		return err
	}
	for err == nil { // notices may come first; ends with the session or ctx
		_, err = sentinel.WaitForNotification(ctx)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("wait for sessions to be cut: %w", context.Cause(ctx))
	}
	return s.awaitReady(ctx, p)
}
