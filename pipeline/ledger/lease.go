package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"deadwire/pipeline/schema"
	"deadwire/pipeline/session"
)

// owner says whose rows are whose. Host, process and start are for people; the
// lease is what the server itself takes back when the owner's session ends.
type owner struct {
	host    string
	pid     int
	started *time.Time
	lease   int32
}

// leaseTries is more than enough: a key is taken once in billions of times.
const leaseTries = 8

// Lease takes a lease on the coordinator's session: rows started from now on are
// this process's, and RUNNING rows whose lease nobody holds are nobody's. Again it does
// nothing.
func (l *Ledger) Lease(ctx context.Context) error {
	if l.owner.lease != 0 {
		return nil
	}
	host, _ := os.Hostname() // a machine without a name still has a process
	now := time.Now().UTC()
	for range leaseTries {
		key := int32(rand.Uint32() | 1) // not 0, which stands for no lease
		taken, err := session.Value[bool](ctx, l.session, schema.LeaseLock, schema.LeaseNamespace, key)
		if err != nil {
			return fmt.Errorf("lease-lock: %w", err)
		}
		if taken {
			l.owner = owner{host: host, pid: os.Getpid(), started: &now, lease: key}
			return nil
		}
	}
	return errors.New("lease-lock: no key was free")
}

// Reap marks the RUNNING rows of dead owners as FAILED and returns their ids. Their
// work is safe to do again: what they committed stays, and the rest was never done.
func (l *Ledger) Reap(ctx context.Context) ([]string, error) {
	reaped, err := session.Column[string](ctx, l.session, schema.LedgerReap)
	if err != nil {
		return nil, fmt.Errorf("ledger-reap: %w", err)
	}
	return reaped, nil
}
