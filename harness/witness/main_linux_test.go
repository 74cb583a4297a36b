package witness_test

import (
	"os"
	"testing"

	"deadwire/harness/witness"

	"go.uber.org/goleak"
)

// roleVariable makes this test binary a program under test.
const roleVariable = "WITNESS_TEST_ROLE"

func TestMain(m *testing.M) {
	if code, launched := witness.Main(); launched {
		os.Exit(code)
	}
	if role, found := os.LookupEnv(roleVariable); found {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}
