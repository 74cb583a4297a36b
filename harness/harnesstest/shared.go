package harnesstest

import (
	"context"
	"errors"
	"os"
	"sync"

	"deadwire/harness"
	"deadwire/harness/janitor"
	"deadwire/harness/pg/embedded"
	"deadwire/harness/pg/source"
	"deadwire/harness/witness"
)

// PostgresVariable says where PostgreSQL comes from, as deadwire's --postgres does;
// without it the first of local, docker and embedded that works is taken.
const PostgresVariable = "DEADWIRE_POSTGRES"

// shared is the rig of this test binary: one server for all tests, for as long as
// somebody uses it.
var shared struct {
	sync.Mutex
	users int
	rig   *harness.Rig
	lease *janitor.Lease
	ready bool // Main was called, so that programs can be started through this binary
}

// Main runs the tests of a package and returns the exit code. It keeps the server from
// the first test that needs it to the last, and is what makes Database.Start possible,
// which starts programs by way of this binary: it must be the first thing that a
// TestMain does.
func Main(m interface{ Run() int }) (code int) {
	if code, launched := witness.Main(); launched {
		return code
	}
	if code, fetching := embedded.Main(); fetching {
		return code
	}
	shared.Lock()
	shared.ready = true
	shared.users++
	shared.Unlock()
	code = m.Run()
	if err := release(context.Background()); err != nil {
		_, _ = os.Stderr.WriteString("harnesstest: " + err.Error() + "\n")
		return max(code, 1)
	}
	return code
}

// acquire returns the rig, and starts it for the first user.
func acquire(ctx context.Context) (*harness.Rig, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.rig == nil {
		if err := start(ctx); err != nil {
			return nil, errors.Join(err, stop(ctx))
		}
	}
	shared.users++
	return shared.rig, nil
}

func start(ctx context.Context) error {
	spec := os.Getenv(PostgresVariable)
	if spec == "" {
		spec = source.Auto
	}
	chosen, err := source.Provider(ctx, spec, source.Options{})
	if err != nil {
		return err
	}
	// What a killed test binary left is not worth failing for.
	_, _ = janitor.Sweep(ctx, "")
	if shared.lease, err = janitor.Acquire(""); err != nil {
		return err
	}
	shared.rig, err = harness.New(ctx, harness.Config{Provider: chosen.Provider, Owner: shared.lease, Env: []string{shared.lease.Env()}})
	return err
}

// release gives the rig back; the last user stops it.
func release(ctx context.Context) error {
	shared.Lock()
	defer shared.Unlock()
	if shared.users--; shared.users > 0 {
		return nil
	}
	return stop(ctx)
}

func stop(ctx context.Context) error {
	var errs []error
	if shared.rig != nil {
		errs = append(errs, shared.rig.Close(context.WithoutCancel(ctx)))
	}
	if shared.lease != nil {
		errs = append(errs, shared.lease.Release())
	}
	shared.rig, shared.lease = nil, nil
	return errors.Join(errs...)
}
