package faultstest_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"deadwire/faults/faultstest"
	"deadwire/harness"
	"deadwire/harness/pg/local"
	"deadwire/harness/witness"
)

// rig is shared by all plays: one server, one Toxiproxy.
var rig *harness.Rig

func TestMain(m *testing.M) {
	if code, launched := witness.Main(); launched {
		os.Exit(code)
	}
	if role, found := os.LookupEnv(faultstest.RoleVariable); found {
		os.Exit(perform(role))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	rig, err = harness.New(ctx, harness.Config{
		// Few slots, since one play takes them all.
		Provider: local.New(local.Options{}), Settings: map[string]string{"max_connections": "30"},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := rig.Close(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
