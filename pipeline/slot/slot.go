// Package slot owns the bounded number of dispatches that may run at once. It does
// not know what a dispatch does, and never borrows a session for its lock: each
// slot has a session of its own, so that nobody else's mishap frees it. The server's
// lock table is authoritative about who holds what.
package slot

import (
	"context"
	"errors"
	"fmt"

	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// ErrBusy says that every slot is held.
var ErrBusy = errors.New("all slots are held")

// ErrNotHeld says that the slot was not ours when we looked: its session ended, or
// something else unlocked it.
var ErrNotHeld = errors.New("slot was not held")

// UnavailableError says that no session could be had for the lock. The caller must
// treat it like ErrBusy: without the lock there is no permission to work.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return fmt.Sprintf("open slot session: %v", e.Err) }
func (e *UnavailableError) Unwrap() error { return e.Err }

// Slot is one held slot and the session that holds it.
type Slot struct {
	session *session.Session
	number  int32
}

// Acquire opens a session "conveyor/slot" and takes the lowest free slot out of
// count (less than 1 counts as 1), without waiting. It returns ErrBusy when none is
// free.
func Acquire(ctx context.Context, cfg session.Config, count int) (*Slot, error) {
	held, err := session.Open(ctx, cfg, "slot")
	if err != nil {
		return nil, &UnavailableError{Err: err}
	}
	number, err := take(ctx, held, max(count, 1))
	if err != nil {
		return nil, errors.Join(err, held.Close(ctx))
	}
	return &Slot{session: held, number: number}, nil
}

func take(ctx context.Context, held *session.Session, count int) (int32, error) {
	for number := range int32(count) {
		taken, err := session.Value[bool](ctx, held, schema.SlotLock, schema.SlotNamespace, number)
		if err != nil {
			return 0, &UnavailableError{Err: fmt.Errorf("slot-lock: %w", err)}
		}
		if taken {
			return number, nil
		}
	}
	return 0, ErrBusy
}

// Number is the slot's key, from 0.
func (s *Slot) Number() int { return int(s.number) }

// BackendPID is the server process that holds the lock.
func (s *Slot) BackendPID() uint32 { return s.session.BackendPID() }

// Check asks the server whether the slot is still held; ErrNotHeld when it is not,
// also when the session is gone.
func (s *Slot) Check(ctx context.Context) error {
	held, err := session.Value[bool](ctx, s.session, schema.SlotHeld, int64(schema.SlotNamespace), int64(s.number))
	if err != nil {
		return fmt.Errorf("slot-check: %w: %w", ErrNotHeld, err)
	}
	if !held {
		return ErrNotHeld
	}
	return nil
}

// Release unlocks explicitly, then closes the session, both on a context of its
// own. ErrNotHeld means that the contract broke somewhere; the slot is free anyway.
func (s *Slot) Release(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	released, err := session.Value[bool](ctx, s.session, schema.SlotUnlock, schema.SlotNamespace, s.number)
	switch {
	case err != nil:
		err = fmt.Errorf("slot-unlock: %w: %w", ErrNotHeld, err)
	case !released:
		err = fmt.Errorf("slot-unlock: %w", ErrNotHeld)
	}
	return errors.Join(err, s.session.Close(ctx))
}
