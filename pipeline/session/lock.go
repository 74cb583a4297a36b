package session

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"deadwire/pipeline/schema"
)

// HeldError says that another session holds a scope.
type HeldError struct {
	Scope string
	// PID is the holder's backend, 0 when it let go in between.
	PID int32
	// Application is the holder's application_name.
	Application string
}

func (e *HeldError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("scope %q was held by another stream a moment ago", e.Scope)
	}
	return fmt.Sprintf("scope %q is held by another stream (backend pid %d, %s)", e.Scope, e.PID, e.Application)
}

// A holder behind a proxy may seem to be there for a moment after its client left,
// so a scope is asked for again, scopePause apart, until scopePatience is over.
const (
	scopePatience = time.Second
	scopePause    = 50 * time.Millisecond
)

// LockScope takes the named scope for the life of this session, or returns a
// HeldError within a second or so. The lock is the server's: it ends with the
// session, whatever ends that.
func (s *Session) LockScope(ctx context.Context, scope string) error {
	key := scopeKey(scope)
	for deadline := time.Now().Add(scopePatience); ; {
		taken, err := Value[bool](ctx, s, schema.ScopeLock, schema.ScopeNamespace, key)
		if err != nil {
			return fmt.Errorf("scope-lock: %w", err)
		}
		if taken {
			return nil
		}
		err = s.scopeHolder(ctx, scope, key)
		held, known := errors.AsType[*HeldError](err)
		if !known || time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(scopePause):
		case <-ctx.Done():
			return held
		}
	}
}

func (s *Session) scopeHolder(ctx context.Context, scope string, key int32) error {
	type holder struct {
		PID         int32
		Application string
	}
	holders, err := Tuples[holder](ctx, s, schema.ScopeHolder, int64(schema.ScopeNamespace), int64(key))
	if err != nil {
		return fmt.Errorf("scope-holder: %w", err)
	}
	if len(holders) == 0 {
		return &HeldError{Scope: scope}
	}
	return &HeldError{Scope: scope, PID: holders[0].PID, Application: holders[0].Application}
}

// scopeKey hashes a scope into the lock's second key. Two scopes with one hash
// would only exclude each other without need.
func scopeKey(scope string) int32 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(scope)) // documented never to fail
	return int32(hash.Sum32())
}
