package tap

import (
	"sync"

	"deadwire/harness/event"
)

// keys pairs a CancelRequest with the session that it means. A key is the body of
// BackendKeyData: pid and secret, of any length that protocol 3.2 allows. It stays
// in memory and ends with its session.
type keys struct {
	mu     sync.Mutex
	owners map[string]event.SessionID
}

func (k *keys) learn(key string, id event.SessionID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.owners == nil {
		k.owners = make(map[string]event.SessionID)
	}
	k.owners[key] = id
}

func (k *keys) owner(key string) event.SessionID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.owners[key]
}

// forget removes a session's key, unless a later session was given the same one.
func (k *keys) forget(key string, id event.SessionID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.owners[key] == id {
		delete(k.owners, key)
	}
}
