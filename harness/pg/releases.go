package pg

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Releases is a list of things to release when a server stops. Providers embed
// it to get Server.OnStop; its zero value is ready.
type Releases struct {
	mu   sync.Mutex
	list []func(context.Context) error
}

// OnStop implements Server.
func (r *Releases) OnStop(release func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, release)
}

// Release calls and forgets all that was added, the last one first.
func (r *Releases) Release(ctx context.Context) error {
	r.mu.Lock()
	list := r.list
	r.list = nil
	r.mu.Unlock()
	var errs []error
	for _, release := range slices.Backward(list) {
		errs = append(errs, release(ctx))
	}
	return errors.Join(errs...)
}
